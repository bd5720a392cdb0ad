package main

import "math/rand"

var names = []string{"a", "b", "c", "a/b", "m~n", "", "x y", "0", "1", "ü"}

func scalar(r *rand.Rand) any {
	return pick[any](r, "1", "x", "", true, false, 0, 1, -7, 1.5, 1e21, 0.1, int64(9007199254740993), "ü\n")
}

// value is random JSON; nulls appear with the given chance in hundred.
func value(r *rand.Rand, depth int, nulls int) any {
	if r.Intn(100) < nulls {
		return nil
	}
	if depth <= 0 || r.Intn(3) == 0 {
		return scalar(r)
	}
	if r.Intn(3) == 0 {
		list := []any{}
		for n := r.Intn(4); n > 0; n-- {
			list = append(list, value(r, depth-1, nulls))
		}
		return list
	}
	return object(r, depth, nulls)
}

func object(r *rand.Rand, depth int, nulls int) map[string]any {
	out := map[string]any{}
	for n := r.Intn(4); n > 0; n-- {
		out[pick(r, names...)] = value(r, depth-1, nulls)
	}
	return out
}
