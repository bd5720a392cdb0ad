package e2e

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is nil if both say the same of every name, else what differs.
func Difference(want, got map[string]string) error {
	var lines []string
	for name, version := range want {
		if got[name] != version {
			lines = append(lines, fmt.Sprintf("%s is %q, not %q", name, got[name], version))
		}
	}
	for name, version := range got {
		if _, known := want[name]; !known {
			lines = append(lines, fmt.Sprintf("%s (%s) is a phantom", name, version))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	return fmt.Errorf("%d of %d differ: %s", len(lines), len(want), strings.Join(lines[:min(5, len(lines))], "; "))
}
