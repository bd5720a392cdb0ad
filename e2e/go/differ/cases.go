// Package differ sends the same requests to a real kube-apiserver and to an embedded shard, and compares the answers
// field by field. The requests are the files cases/*.txt; known.go names the differences that are meant.
package differ

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// step is one request, or one look at a watch.
//
// A step of a case file is a paragraph: a line `METHOD path`, lines `> option`, and the body.
//
//	> Name: value       a request header
//	> type merge        a Content-Type by its short name (types below)
//	> as alice devs     sent as that user, of these groups
//	> bearer ${token}   sent with that token instead of the administrator's certificate
//	> each a ;; b       the step once per value, which is ${each}
//	> save rv /metadata/resourceVersion
//	> until 200         asked again until that is the status code
//	> has /path         asked again until the answer has that path
//	> has /path text    asked again until it has that text there
//	> quoted            the body is a quoted Go text
//	> protobuf          the body, an object as JSON, is sent as protobuf
//	> ignore expression differences whose path matches are not looked at
//	> differs reason    the answers differ, which is meant
//	> but a ;; reason   the same for one value of `each`
//	> unordered a       causes of a refusal of that value of `each` come in any order, as from a Go map
//
// `WATCH name path` opens a watch and compares how it begins, `EVENTS name count` compares its next events, `END name`
// that it ends. Other texts between ${ and } are the case's namespace (ns, core), what was saved, or $repeat:n:text.
type step struct {
	line         int
	method, path string
	header       map[string]string
	as           []string
	bearer       string
	body         string
	protobuf     bool
	save         map[string]string
	status       int
	has, text    string
	ignore       []*regexp.Regexp
	differs      string
	but          map[string]string
	unordered    []string
	anyOrder     bool // of the causes, for this value of `each`
	each         []string
	name         string // of a watch
	count        int    // of events
	random       bool   // made by a generator: nobody has looked at its words
}

// testCase is a sequence of steps in a namespace of its own.
type testCase struct {
	name  string
	steps []step
}

var types = map[string]string{
	"merge":     "application/merge-patch+json",
	"json":      "application/json-patch+json",
	"strategic": "application/strategic-merge-patch+json",
	"apply":     "application/apply-patch+yaml",
	"yaml":      "application/yaml",
}

var headerLine = regexp.MustCompile(`^([A-Z][A-Za-z0-9%._-]*):\s?(.*)$`)

func (s *step) option(text string) error {
	if found := headerLine.FindStringSubmatch(text); found != nil {
		s.header[found[1]] = found[2]
		return nil
	}
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "type":
		if types[rest] == "" {
			return fmt.Errorf("no type %q", rest)
		}
		s.header["Content-Type"] = types[rest]
	case "as":
		s.as = strings.Fields(rest)
	case "bearer":
		s.bearer = rest
	case "each":
		for _, one := range strings.Split(rest, ";;") {
			s.each = append(s.each, strings.TrimSpace(one))
		}
	case "save":
		name, path, _ := strings.Cut(rest, " ")
		s.save[name] = path
	case "until":
		code, err := strconv.Atoi(rest)
		s.status = code
		return err
	case "has":
		s.has, s.text, _ = strings.Cut(rest, " ")
	case "quoted":
		s.body = "\""
	case "protobuf":
		s.protobuf = true
	case "ignore":
		expression, err := regexp.Compile(rest)
		s.ignore = append(s.ignore, expression)
		return err
	case "differs":
		s.differs = rest
	case "unordered":
		s.unordered = append(s.unordered, rest)
	case "but":
		value, reason, ok := strings.Cut(rest, " ;; ")
		if !ok {
			return fmt.Errorf("no reason in %q", text)
		}
		s.but[value] = reason
	default:
		return fmt.Errorf("no option %q", word)
	}
	return nil
}

// parseStep reads a paragraph.
func parseStep(lines []string, number int) (step, error) {
	s := step{line: number, header: map[string]string{}, save: map[string]string{}, but: map[string]string{}}
	s.method, s.path, _ = strings.Cut(lines[0], " ")
	switch s.method {
	case "WATCH":
		s.name, s.path, _ = strings.Cut(s.path, " ")
	case "EVENTS":
		name, count, _ := strings.Cut(s.path, " ")
		events, err := strconv.Atoi(count)
		if err != nil {
			return s, err
		}
		s.name, s.count = name, events
	case "END":
		s.name = s.path
	}
	at := 1
	for ; at < len(lines) && strings.HasPrefix(lines[at], "> "); at++ {
		if err := s.option(lines[at][2:]); err != nil {
			return s, err
		}
	}
	quoted := s.body != ""
	s.body = strings.Join(lines[at:], "\n")
	if quoted {
		text, err := strconv.Unquote(s.body)
		if err != nil {
			return s, fmt.Errorf("quoted body: %w", err)
		}
		s.body = text
	}
	return s, nil
}

// readCases reads the case files.
func readCases() (cases []testCase, err error) {
	files, err := filepath.Glob("cases/*.txt")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		more, err := readFile(file)
		if err != nil {
			return nil, err
		}
		cases = append(cases, more...)
	}
	return cases, nil
}

func readFile(file string) (cases []testCase, err error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	area := strings.TrimSuffix(filepath.Base(file), ".txt")
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	var paragraph []string
	number, begin := 0, 0
	flush := func() error {
		if len(paragraph) == 0 {
			return nil
		}
		if len(cases) == 0 {
			return fmt.Errorf("%s:%d: a step before the first case", file, begin)
		}
		made, err := parseStep(paragraph, begin)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, begin, err)
		}
		last := &cases[len(cases)-1]
		last.steps = append(last.steps, made)
		paragraph = nil
		return nil
	}
	for lines.Scan() {
		number++
		line := lines.Text()
		switch {
		case line == "":
			err = flush()
		case len(paragraph) == 0 && strings.HasPrefix(line, "#"):
		case len(paragraph) == 0 && strings.HasPrefix(line, "== "):
			cases = append(cases, testCase{name: area + "/" + line[3:]})
		default:
			if len(paragraph) == 0 {
				begin = number
			}
			paragraph = append(paragraph, line)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return cases, lines.Err()
}
