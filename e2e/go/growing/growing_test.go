package growing

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

const insideMark = "KINTSUGI_GROWING_INSIDE"

// TestGR_901_NothingIsLostOnTheWay runs itself again in namespaces of its own: nothing outlives it there.
func TestGR_901_NothingIsLostOnTheWay(t *testing.T) {
	seconds, _ := strconv.Atoi(os.Getenv("KINTSUGI_GROWING_SECONDS"))
	if seconds == 0 {
		t.Skip("takes minutes: give KINTSUGI_GROWING_SECONDS")
	}
	if os.Getenv(insideMark) != "" {
		run(t, time.Duration(seconds)*time.Second)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for network namespaces")
	}
	for _, program := range []string{"etcd", "ip", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on this machine", program)
		}
	}
	if out, err := exec.Command("unshare", "-n", "-m", "ip", "link", "add", bridge, "type", "bridge").CombinedOutput(); err != nil {
		t.Skipf("no bridges in namespaces here: %s", out)
	}
	again := exec.Command("unshare", "-n", "-m", "-p", "-f", "--kill-child", "--mount-proc", os.Args[0], "-test.v", "-test.count=1",
		"-test.timeout=0", "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), insideMark+"=1")
	out, err := again.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	again.Stderr = again.Stdout
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	text := bufio.NewScanner(out)
	text.Buffer(nil, 1<<24)
	for text.Scan() {
		fmt.Println("    inside: " + text.Text())
	}
	if err := again.Wait(); err != nil {
		t.Errorf("inside the namespaces: %v", err)
	}
}

func run(t *testing.T, length time.Duration) {
	w := start(t)
	w.fill(2)
	t.Logf("up after %v, clusters %v", w.now(), w.clusters)
}
