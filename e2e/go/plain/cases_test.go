package plain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// aCase of docs/spec/aggregation.md that needs no fault that only a script can make.
type aCase struct {
	name string
	run  func(*place)
}

// cases in the order in which they run: those at the end leave servers that have started again.
var cases = slices.Concat(listCases(), watchCases(), clientCases(), surfaceCases(), weightCases(), faultCases(), serverCases())

// sizes of the test profile.
var sizes = []string{"loops: 2", "shutdown: {spread_ms: 2000}", "aggregation:", "  allow_partial: true",
	"  watch: {max_stall_ms: 90000, group_linger_ms: 2000}", "  watchlist: {silence_ms: 2000, initial_deadline_ms: 30000, give_up_ms: 40000}",
	"  list: {first_byte_ms: 5000, deadline_ms: 20000, protobuf_spool_bytes: 1048576}", "  resync: {spread_ms: 2000}",
	"  absent: {reprobe_ms: 2000}", "  cursor: {future_wait_ms: 200}"}

// notShown says why a fleet cannot show a case.
var notShown = map[string]map[string]string{
	kubes.name: {
		"T69_an_orderly_end": "a kube-apiserver waits a minute for its watches to end",
	},
	shards.name: {
		"T93_exec_logs_and_port_forward": "no pods",
		"T02_kinds_without_versions":     "no kind without versions",
	},
	installation.name: {
		"T01_T02_T10_custom_resources":   "a workspace's own CustomResourceDefinitions are not shown at clusters/*, as in kcp",
		"T94_a_group_of_one_server":      "a workspace's own CustomResourceDefinitions are not shown at clusters/*, as in kcp",
		"T18_T76_T92_get":                "no single objects at clusters/* (AGG-201)",
		"T38_old_paths":                  "no namespaces at clusters/* (AGG-202); merged/parameters_test.py has those without",
		"T08_T92_T94_T95_kubectl":        "kubectl puts namespaces into paths (AGG-202); the next one has what goes without",
		"T93_exec_logs_and_port_forward": "no pods",
		"T02_kinds_without_versions":     "no kind without versions",
		"T67_T90_rights_on_one_server":   "who may read clusters/* may on every shard; merged/reviewed_test.py has rights in an export",
	},
}

// run each case in a namespace of its own.
func run(t *testing.T, f fleet) {
	r := startFleet(t, f, []string{"a", "b", "c", "d"}, sizes...)
	for _, one := range cases {
		if notShown[f.name][one.name] != "" {
			continue
		}
		t.Run(one.name, func(t *testing.T) {
			ns, _, _ := strings.Cut(strings.ToLower(one.name), "_")
			one.run(r.place(t, ns+"-"+fmt.Sprint(len(one.name))))
		})
	}
}

func TestCases(t *testing.T) { run(t, kubes) }

func TestCasesOverShards(t *testing.T) {
	t.Parallel() // they wait more than they work
	run(t, shards)
}

func TestCasesOverInstallation(t *testing.T) {
	t.Parallel()
	run(t, installation)
}

// Nothing is left out but by its name and for a reason.
func TestWhatIsNotShown(t *testing.T) {
	for fleet, names := range notShown {
		for name, why := range names {
			if why == "" || !slices.ContainsFunc(cases, func(c aCase) bool { return c.name == name }) {
				t.Errorf("%s: %s: %q", fleet, name, why)
			}
		}
	}
}

// onRig are cases that make namespaces themselves, as clients of the proxy.
func onRig(do func(*testing.T, *rig)) func(*place) { return func(p *place) { do(p.t, p.rig) } }

func clientCases() []aCase {
	return []aCase{
		{"T01_T11_T76_list", onRig(testList)},
		{"T18_T76_T92_get", onRig(testGet)},
		{"T38_old_paths", onRig(testOldWatchPaths)},
		{"T47_T49_informers", onRig(testInformers)},
		{"T76_T77_same_names", onRig(testSameNames)},
		{"T91_T101_writes", onRig(testWrites)},
		{"T88_T89_identity", onRig(testIdentity)},
		{"one_server", onRig(testOneServer)},
		{"T08_kubectl", onRig(testKubectl)},
		{"T59_T61_kill", onRig(testKill)},
	}
}
