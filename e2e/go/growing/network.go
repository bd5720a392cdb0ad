package growing

import (
	"fmt"
	"os/exec"
	"strings"
)

// Host is a network namespace with one address on the bridge. The clients are at the bridge itself.
type Host struct {
	Name    string
	address string
	mac     string
	device  string
	far     string // the other end of it, at the bridge; "": the host is at the bridge
}

const (
	clients = "clients"
	bridge  = "kbr0"              // not br…: `ip` would take that for another word
	nobody  = "02:ff:00:00:00:01" // what is sent there is lost without a word
)

// Network of hosts that all reach each other. This process must be in a network and mount namespace of its own.
type Network struct {
	hosts []*Host
	netem bool // the kernel can delay and lose packets; else links only get narrow
}

func command(words ...string) error {
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, out)
	}
	return nil
}

func lines(text string) error {
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if err := command(strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// newNetwork makes the bridge, and a host for each name.
func newNetwork(names []string) (*Network, error) {
	n := &Network{hosts: []*Host{{Name: clients, address: "10.9.0.1", mac: "02:00:00:00:09:01", device: bridge}}}
	if err := lines(`mkdir -p /run/netns
mount -t tmpfs netns /run/netns
ip link set lo up
ip link add kbr0 address 02:00:00:00:09:01 type bridge
ip addr add 10.9.0.1/24 dev kbr0
ip link set kbr0 up`); err != nil {
		return nil, err
	}
	for i, name := range names {
		host := &Host{Name: name, address: fmt.Sprintf("10.9.0.%d", 10+i), mac: fmt.Sprintf("02:00:00:00:09:%02x", 10+i), device: "eth0", far: fmt.Sprintf("v%d", i)}
		n.hosts = append(n.hosts, host)
		if err := lines(fmt.Sprintf(`ip netns add %[1]s
ip link add v%[2]d type veth peer name eth0 address %[3]s netns %[1]s
ip link set v%[2]d master kbr0 up
ip -n %[1]s addr add %[4]s/24 dev eth0
ip -n %[1]s link set eth0 up
ip -n %[1]s link set lo up`, name, i, host.mac, host.address)); err != nil {
			return nil, err
		}
	}
	n.netem = command("tc", "qdisc", "add", "dev", bridge, "root", "netem", "delay", "1ms") == nil
	if n.netem {
		if err := n.Fast(n.hosts[0]); err != nil {
			return nil, err
		}
	}
	for _, from := range n.hosts {
		for _, to := range n.hosts {
			if err := n.Heal(from, to); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

func (n *Network) Host(name string) *Host {
	for _, host := range n.hosts {
		if host.Name == name {
			return host
		}
	}
	return nil
}

// Cut loses what one sends to another; the other direction is another call.
func (n *Network) Cut(from, to *Host) error { return n.neighbour(from, to, nobody) }

// Heal ends a cut.
func (n *Network) Heal(from, to *Host) error { return n.neighbour(from, to, to.mac) }

// Slow makes a host's link narrow, or long, in both directions, whoever it talks to.
func (n *Network) Slow(host *Host, how []string) error {
	return host.queue(append([]string{"replace"}, how...)...)
}

// Fast ends that.
func (n *Network) Fast(host *Host) error { return host.queue("del") }

func (h *Host) queue(words ...string) error {
	near := []string{"tc", "qdisc", words[0], "dev", h.device, "root"}
	if h.far == "" {
		return command(append(near, words[1:]...)...)
	}
	if err := command(append(h.inside(near...), words[1:]...)...); err != nil {
		return err
	}
	return command(append([]string{"tc", "qdisc", words[0], "dev", h.far, "root"}, words[1:]...)...)
}

func (n *Network) neighbour(from, to *Host, mac string) error {
	if from == to {
		return nil
	}
	words := []string{"ip"}
	if from.Name != clients {
		words = append(words, "-n", from.Name)
	}
	return command(append(words, "neigh", "replace", to.address, "lladdr", mac, "nud", "permanent", "dev", from.device)...)
}

// inside is the command line that runs another one at the host, as the same process.
func (h *Host) inside(words ...string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + h.Name}, words...)
}
