package main

import (
	"fmt"
	"math/rand"
	"strings"
)

// generator makes expressions of a wanted type, now and then one that does not fit.
type generator struct {
	random *rand.Rand
	locals []local
	names  int
}

type local struct{ name, kind string }

func (g *generator) pick(options ...string) string { return options[g.random.Intn(len(options))] }

func (g *generator) leaf(kind string) string {
	for _, l := range g.locals {
		if l.kind == kind && g.random.Intn(2) == 0 {
			return l.name
		}
	}
	switch kind {
	case "bool":
		return g.pick("true", "false", "self.b", "self.c", "oldSelf.c", "has(self.o.absent)", "has(self.o.x)", "has(self.m.one)")
	case "int":
		return g.pick("0", "1", "2", "-1", "7", "self.i", "self.j", "oldSelf.i", "self.o.x", "self.li[0]", "self.m['one']", "self.lm[0].v", "self.m.two", "self.li[7]", "9223372036854775807", "size(self.li)")
	case "double":
		return g.pick("0.0", "1.5", "-2.25", "self.d", "1e10", "double(self.i)")
	case "string":
		return g.pick("''", "'a'", "'hello'", "'é'", "self.s", "self.t", "self.u", "self.e", "self.o.y", "self.ls[1]", "oldSelf.s", "self.lm[1].k", "self.ms['k']", "self.o.absent", "self.set[0]")
	case "list(int)":
		return g.pick("[]", "[1, 2, 3]", "self.li", "oldSelf.li", "[self.i, 2]")
	case "list(string)":
		return g.pick("['a', 'b']", "self.ls", "self.lu", "self.set", "oldSelf.set", "[self.s]")
	case "map":
		return g.pick("{}", "{'a': 1}", "self.m", "oldSelf.m", "{self.s: self.i}")
	case "duration":
		return g.pick("duration('1m')", "self.dur", "oldSelf.dur")
	case "timestamp":
		return g.pick("self.ts", "oldSelf.ts", "self.day", "timestamp('2020-01-01T00:00:00Z')")
	default:
		return g.pick("self.ios", "self.ios2", "oldSelf.ios", "dyn(1)", "dyn('a')", "dyn(self.li)", "dyn(self.o)", "dyn(null)")
	}
}

var kinds = []string{"bool", "int", "double", "string", "list(int)", "list(string)", "map", "duration", "timestamp", "dyn"}

func (g *generator) expression(kind string, depth int) string {
	if g.random.Intn(60) == 0 {
		kind = kinds[g.random.Intn(len(kinds))]
	}
	if depth <= 0 || (depth < 4 && g.random.Intn(6) == 0) {
		return g.leaf(kind)
	}
	d := depth - 1
	e := func(k string) string { return g.expression(k, d) }
	in := func(elem string, body func() string) (string, string) {
		g.names++
		name := fmt.Sprintf("v%d", g.names)
		g.locals = append(g.locals, local{name, elem})
		out := body()
		g.locals = g.locals[:len(g.locals)-1]
		return name, out
	}
	macro := func(list, elem, fn, body string) string {
		name, text := in(elem, func() string { return e(body) })
		return fmt.Sprintf("%s.%s(%s, %s)", list, fn, name, text)
	}
	var options []func() string
	add := func(fs ...func() string) { options = append(options, fs...) }
	form := func(format string, kinds ...string) func() string {
		return func() string {
			args := make([]any, len(kinds))
			for i, k := range kinds {
				args[i] = e(k)
			}
			return fmt.Sprintf(format, args...)
		}
	}
	add(func() string { return fmt.Sprintf("(%s ? %s : %s)", e("bool"), e(kind), e(kind)) })
	switch kind {
	case "bool":
		for _, k := range []string{"int", "double", "string", "duration", "timestamp", "dyn"} {
			add(form("%s "+g.pick("==", "!=", "<", "<=", ">", ">=")+" %s", k, k))
		}
		add(form("%s == %s", "list(int)", "list(int)"), form("%s == %s", "map", "map"), form("%s == %s", "list(string)", "list(string)"),
			form("%s && %s", "bool", "bool"), form("(%s || %s)", "bool", "bool"), form("!(%s)", "bool"), form("%s in %s", "int", "list(int)"),
			form("%s in %s", "string", "list(string)"), form("%s in %s", "string", "map"), form("%s.contains(%s)", "string", "string"),
			form("%s.startsWith(%s)", "string", "string"), form("%s.endsWith(%s)", "string", "string"), form("%s.matches('[a-l]+')", "string"),
			form("%s.isSorted()", "list(int)"), form("sets.contains(%s, %s)", "list(int)", "list(int)"), form("sets.intersects(%s, %s)", "list(string)", "list(string)"),
			form("%s < %s", "int", "double"), form("%s == %s", "dyn", "int"), form("%s[?%s].hasValue()", "list(int)", "int"), form("isIP(%s)", "string"), form("isQuantity(%s)", "string"),
			func() string { return macro(e("list(int)"), "int", g.pick("all", "exists", "exists_one"), "bool") },
			func() string {
				return macro(e("list(string)"), "string", g.pick("all", "exists", "exists_one"), "bool")
			},
			func() string { return macro(e("map"), "string", g.pick("all", "exists"), "bool") })
	case "int":
		add(form("%s "+g.pick("+", "-", "*", "/", "%%")+" %s", "int", "int"), form("(%s - %s)", "int", "int"), form("-(%s)", "int"), form("size(%s)", "string"), form("%s.size()", "list(int)"), form("size(%s)", "map"),
			form("%s[%s]", "list(int)", "int"), form("%s[%s]", "map", "string"), form("%s.sum()", "list(int)"), form("%s.min()", "list(int)"), form("%s.indexOf(%s)", "string", "string"), form("int(%s)", "double"),
			form("%s.indexOf(%s)", "list(int)", "int"), form("%s[?%s].orValue(%s)", "map", "string", "int"), form("%s.getMinutes()", "duration"), form("%s.getHours()", "timestamp"), form("int(%s)", "string"),
			form("%s.lastIndexOf(%s, %s)", "string", "string", "int"), form("int(%s)", "dyn"))
	case "double":
		add(form("%s "+g.pick("+", "-", "*", "/")+" %s", "double", "double"), form("double(%s)", "int"), form("double(%s)", "string"), form("-(%s)", "double"))
	case "string":
		add(form("%s + %s", "string", "string"), form("%s[%s]", "list(string)", "int"), form("string(%s)", "int"), form("string(%s)", "double"), form("string(%s)", "bool"), form("string(%s)", "timestamp"), form("string(%s)", "duration"), form("%s.substring(%s)", "string", "int"), form("%s.charAt(%s)", "string", "int"),
			form("%s.replace(%s, %s)", "string", "string", "string"), form("%s.upperAscii()", "string"), form("%s.join(%s)", "list(string)", "string"), form("%s.find('l+')", "string"), form("%s.trim()", "string"), form("strings.quote(%s)", "string"), form("'%%s:%%d'.format([%s, %s])", "string", "int"), form("string(%s)", "dyn"))
	case "list(int)":
		add(form("[%s, %s]", "int", "int"), form("%s + %s", "list(int)", "list(int)"), form("%s.slice(%s, %s)", "list(int)", "int", "int"), form("%s.sort()", "list(int)"), form("%s.distinct()", "list(int)"), form("%s.reverse()", "list(int)"),
			func() string { return macro(e("list(int)"), "int", "map", "int") }, func() string { return macro(e("list(int)"), "int", "filter", "bool") }, func() string { return macro(e("list(string)"), "string", "map", "int") }, func() string { return macro(e("map"), "string", "map", "int") })
	case "list(string)":
		add(form("[%s, %s]", "string", "string"), form("%s + %s", "list(string)", "list(string)"), form("%s.split(%s)", "string", "string"), form("%s.findAll('[a-m]')", "string"),
			func() string { return macro(e("list(int)"), "int", "map", "string") }, func() string { return macro(e("list(string)"), "string", "filter", "bool") })
	case "map":
		add(form("{%s: %s}", "string", "int"), func() string {
			a, b := fmt.Sprintf("k%d", g.names+1), fmt.Sprintf("w%d", g.names+1)
			g.names++
			g.locals = append(g.locals, local{a, "string"}, local{b, "int"})
			body := e("int")
			g.locals = g.locals[:len(g.locals)-2]
			return fmt.Sprintf("%s.transformMap(%s, %s, %s)", e("map"), a, b, body)
		})
	case "duration":
		add(form("%s + %s", "duration", "duration"), form("%s - %s", "timestamp", "timestamp"), form("duration(%s)", "string"))
	case "timestamp":
		add(form("%s + %s", "timestamp", "duration"), form("%s - %s", "timestamp", "duration"), form("timestamp(%s)", "int"))
	default:
		add(form("dyn(%s)", "int"), form("dyn(%s)", "string"), form("dyn(%s)", "list(int)"), form("%s + %s", "dyn", "dyn"), form("dyn(%s).x", "map"), form("%s[%s]", "dyn", "int"))
	}
	out := options[g.random.Intn(len(options))]()
	if strings.ContainsAny(out, "+-*/%<>=&|?") && depth < 4 {
		return "(" + out + ")"
	}
	return out
}
