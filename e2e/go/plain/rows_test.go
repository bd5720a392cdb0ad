package plain

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// scripted says why no embedded shard shows a case of the specification; a shard that is told what to do wrong does
// (e2e/go/merge), or another fleet.
var scripted = map[int]string{
	19:  "a shard that answers in another form than it was asked for",
	46:  "a shard that never ends its initial events",
	75:  "fifty shards",
	78:  "logical clusters of the system, which embedded shards do not show",
	80:  "ten minutes of idle watches; `./dev bench merged` has them over embedded shards",
	86:  "floods of a client, which reach no shard",
	87:  "e2e/go/model plays it over embedded shards",
	93:  "pods, which workspaces do not have",
	104: "a proxy that asks itself",
	110: "a logical cluster that moves, which embedded shards do not offer",
	111: "a shard that compresses watches unasked",
}

// rows are the numbers T01 … T112 in a name.
func rows(name string) (out []int) {
	for _, found := range regexp.MustCompile(`T(\d{2,3})`).FindAllStringSubmatch(name, -1) {
		n, _ := strconv.Atoi(found[1])
		out = append(out, n)
	}
	return out
}

// named are the rows that tests in files name, and how many do.
func named(t *testing.T, files, pattern string) map[int]int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repository(), files))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %d files, %v", files, len(paths), err)
	}
	out := map[int]int{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(pattern).FindAllString(string(text), -1) {
			for _, n := range rows(found) {
				out[n]++
			}
		}
	}
	return out
}

// Each case T01 … T112 of docs/spec/aggregation.md has a test with its number over embedded shards, or a reason why it has none; each
// has one over shards that are told what to do wrong, or is shown by others.
func TestEveryRowIsShown(t *testing.T) {
	shown := map[string]map[int]int{kubes.name: {}, shards.name: {}, installation.name: {},
		"e2e":      named(t, "e2e/merged/*_test.py", `def test_\w+`),
		"scripted": named(t, "e2e/go/merge/*_test.go", `func Test\w+|"T\d\w+"`)}
	for _, one := range cases {
		for _, fleet := range []fleet{kubes, shards, installation} {
			if notShown[fleet.name][one.name] == "" {
				for _, n := range rows(one.name) {
					shown[fleet.name][n]++
				}
			}
		}
	}
	order := []string{"e2e", installation.name, shards.name, kubes.name, "scripted"}
	for n := 1; n <= 112; n++ {
		line := fmt.Sprintf("T%02d", n)
		for _, where := range order {
			line += fmt.Sprintf("  %s %d", where, shown[where][n])
		}
		t.Log(line, " ", scripted[n])
		embedded := shown["e2e"][n] + shown[installation.name][n] + shown[shards.name][n]
		if embedded == 0 && scripted[n] == "" {
			t.Errorf("no test over embedded shards: %s", line)
		}
		if embedded != 0 && scripted[n] != "" {
			t.Errorf("is shown: %s, in spite of %s", line, scripted[n])
		}
		if embedded+shown["scripted"][n] == 0 && shown[kubes.name][n] == 0 {
			t.Errorf("no test at all: %s", line)
		}
	}
}
