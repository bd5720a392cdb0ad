package merge

import (
	"fmt"
	"strings"
)

// Combination is a query that has to be refused, in the same way by every server.
type Combination struct {
	Query, Field string // the parameter that causes of a 422 name
	Code         int
}

// Combinations that are forbidden (V01 to V17). cursor is of a list of now.
func Combinations(cursor string) []Combination {
	return []Combination{
		{"limit=abc", "", 400}, {"limit=9223372036854775808", "", 400}, {"timeoutSeconds=x", "", 400},
		{"resourceVersionMatch=Exact", "resourceVersionMatch", 422},
		{"resourceVersionMatch=NotOlderThan", "resourceVersionMatch", 422},
		{"continue=x&resourceVersionMatch=Exact&resourceVersion=" + cursor, "resourceVersionMatch", 422},
		{"watch=1&continue=x&resourceVersionMatch=NotOlderThan", "resourceVersionMatch", 422},
		{"resourceVersionMatch=foo&resourceVersion=" + cursor, "resourceVersionMatch", 422},
		{"resourceVersionMatch=Exact&resourceVersion=0", "resourceVersionMatch", 422},
		{"sendInitialEvents=true", "sendInitialEvents", 422}, {"sendInitialEvents=false", "sendInitialEvents", 422},
		{"watch=1&sendInitialEvents=true", "resourceVersionMatch", 422},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", "resourceVersionMatch", 422},
		{"watch=1&sendInitialEvents=true&resourceVersionMatch=foo", "resourceVersionMatch", 422},
		{"watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=" + cursor, "resourceVersionMatch", 422},
		{"watch=1&resourceVersionMatch=Exact&resourceVersion=" + cursor, "resourceVersionMatch", 422},
		{"continue=x", "", 400}, {"continue=x&resourceVersion=5", "", 400}, {"labelSelector=a%20in%20(", "", 400},
		{"fieldSelector=spec.x%3D1", "", 400},
	}
}

// WrongVersion is a resourceVersion that has to be refused.
type WrongVersion struct {
	Version string
	Code    int
}

// VersionsOfNobody are wrong where cursor is right, each in its way. other is a cursor of another resource.
func VersionsOfNobody(cursor, other string) []WrongVersion {
	zero := strings.Repeat("0", 20)
	return []WrongVersion{
		{"abc", 400}, {"-1", 400}, {"01", 400}, {"1" + strings.Repeat("0", 9999), 400}, {"1 ", 400}, {"1.5", 400}, {"0x10", 400},
		{"2" + cursor[1:], 410}, {cursor[:1] + "19" + cursor[3:], 410}, {cursor[:len(cursor)-1], 410}, {cursor[:3] + "000999" + cursor[9:], 410},
		{cursor[:9] + fmt.Sprintf("%06d", 999999) + cursor[15:], 410}, {other, 410}, {cursor + zero, 410}, {cursor[:len(cursor)-20], 410},
		{cursor[:15] + "99999999999999999999" + cursor[35:], 410}, {cursor[:15] + "00000000000000000001" + cursor[35:], 410},
		{strings.Repeat("9", 2048), 410},
	}
}
