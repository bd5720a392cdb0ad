// Command patch prints random cases and what the reference libraries make of them, one JSON object a line, for
// krm/oracle_test.cc. Usage: go run ./patch <area> <seed> <count>
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
)

type caseOf map[string]any

// A generator makes one case; nil when the reference's answer is not defined (it panics or depends on chance).
type generator func(r *rand.Rand) caseOf

var areas = map[string]generator{
	"json_patch":      jsonPatchCase,
	"merge_patch":     mergePatchCase,
	"strategic_merge": strategicCase,
	"label_selector":  labelCase,
	"field_selector":  fieldCase,
	"json_path":       jsonPathCase,
	"request_path":    requestCase,
	"request_target":  requestTargetCase,
}

func main() {
	if len(os.Args) != 4 || areas[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: patch <area> <seed> <count>")
		os.Exit(2)
	}
	seed, _ := strconv.ParseInt(os.Args[2], 10, 64)
	count, _ := strconv.Atoi(os.Args[3])
	r := rand.New(rand.NewSource(seed))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	seen := map[string]bool{}
	for tries := 100*count + 1000; count > 0 && tries > 0; tries-- {
		made := guarded(areas[os.Args[1]], r)
		if made == nil {
			continue
		}
		key, _ := json.Marshal(made)
		if seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		if err := encoder.Encode(made); err != nil {
			panic(err)
		}
		count--
	}
}

func guarded(make generator, r *rand.Rand) (made caseOf) {
	defer func() {
		if recover() != nil {
			made = nil
		}
	}()
	return make(r)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.Intn(len(from))] }

func text(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(out)
}
