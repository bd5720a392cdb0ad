// Prints what cel-go with the Kubernetes environment answers, one JSON line a case:
//
//	{"schema": …, "rule": "…", "self": …, "old": …, "error": "compilation failed: …"}
//	{"schema": …, "rule": "…", "self": …, "result": true, "cost": 5, "estimate": 7}
//	{"schema": …, "rule": "…", "self": …, "failure": "no such key: x", "cost": 3, "estimate": 7}
//
// schema, self and old stand only where they change.
//
// usage: cel [-seed n] [-count n] [-stdin] > corpus.jsonl
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type testCase struct {
	Schema   json.RawMessage `json:"schema,omitempty"`
	Rule     string          `json:"rule"`
	Self     json.RawMessage `json:"self,omitempty"`
	Old      json.RawMessage `json:"old,omitempty"`
	Error    string          `json:"error,omitempty"`
	Failure  string          `json:"failure,omitempty"`
	Result   *bool           `json:"result,omitempty"`
	Cost     uint64          `json:"cost,omitempty"`
	Estimate uint64          `json:"estimate,omitempty"`
}

type activation struct {
	self, old any
	hasOld    bool
}

func (a *activation) ResolveName(name string) (any, bool) {
	if name == "self" {
		return a.self, true
	}
	if name == "oldSelf" {
		return a.old, a.hasOld
	}
	return nil, false
}
func (a *activation) Parent() interpreter.Activation { return nil }

func structural(raw json.RawMessage) *schema.Structural {
	var props v1.JSONSchemaProps
	if err := json.Unmarshal(raw, &props); err != nil {
		panic(err)
	}
	var internal apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		panic(err)
	}
	out, err := schema.NewStructural(&internal)
	if err != nil {
		panic(err)
	}
	return out
}

func value(raw json.RawMessage) any {
	var out any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		panic(fmt.Sprint(err, string(raw)))
	}
	return out
}

func run(c *testCase) {
	s := structural(c.Schema)
	s.XValidations = v1.ValidationRules{{Rule: c.Rule}}
	declared := model.SchemaDeclType(s, false)
	results, err := cel.Compile(s, declared, celconfig.PerCallLimit,
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.NewExpressionsEnvLoader())
	if err != nil {
		c.Error = err.Error()
		return
	}
	compiled := results[0]
	if compiled.Error != nil {
		c.Error = compiled.Error.Detail
		return
	}
	if compiled.Program == nil {
		return // an empty rule
	}
	c.Estimate = compiled.MaxCost
	vars := &activation{self: cel.UnstructuredToVal(value(c.Self), s)}
	if c.Old != nil {
		vars.old, vars.hasOld = cel.UnstructuredToVal(value(c.Old), s), true
	}
	result, details, err := compiled.Program.ContextEval(context.Background(), vars)
	if details != nil && details.ActualCost() != nil {
		c.Cost = *details.ActualCost()
	}
	if err != nil {
		c.Failure = err.Error()
		return
	}
	verdict := result == types.True
	c.Result = &verdict
}

func main() {
	seed := flag.Int64("seed", 1, "seed")
	count := flag.Int("count", 2000, "random cases")
	stdin := flag.Bool("stdin", false, "rules from standard input, one a line, instead of the list and random ones")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	var last testCase
	emit := func(c testCase) {
		run(&c)
		if string(c.Schema) == string(last.Schema) && string(c.Self) == string(last.Self) && string(c.Old) == string(last.Old) {
			c.Schema, c.Self, c.Old = nil, nil, nil
		} else {
			last = c
		}
		if err := encoder.Encode(c); err != nil {
			panic(err)
		}
	}
	if *stdin {
		listed, *count = nil, 0
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			listed = append(listed, lines.Text())
		}
	}
	for _, rule := range listed {
		emit(testCase{Schema: json.RawMessage(bigSchema), Rule: rule, Self: json.RawMessage(bigValue), Old: json.RawMessage(oldValue)})
	}
	g := generator{random: rand.New(rand.NewSource(*seed))}
	for i := 0; i < *count; i++ {
		emit(testCase{Schema: json.RawMessage(bigSchema), Rule: g.expression("bool", 4), Self: json.RawMessage(bigValue), Old: json.RawMessage(oldValue)})
	}
}
