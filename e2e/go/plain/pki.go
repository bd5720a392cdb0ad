package plain

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kintsugi.dev/e2e/merge"
)

// pair names the files of a certificate and its key.
type pair struct{ cert, key string }

// pki is what everybody here proves who they are with.
type pki struct {
	servers, clients, proxies pair            // authorities
	serving                   pair            // of every server and of the proxy
	user                      pair            // user alice of admins, and of those who administer an installation
	master                    pair            // who sets the servers up
	proxy                     pair            // asserts who asks
	people                    map[string]pair // users u1, u2, u3 without any group
	audit                     string          // what servers write down of requests
	issuer                    *issuer
}

// again issues another certificate of a server.
func (p *pki) again(t *testing.T, name string) pair {
	t.Helper()
	p.issuer.t = t
	return p.issuer.issue(name+"-again", "servers", pkix.Name{CommonName: "server"}, x509.ExtKeyUsageServerAuth)
}

type issuer struct {
	t           *testing.T
	dir         string
	serial      int64
	certificate map[string]*x509.Certificate
	key         map[string]*ecdsa.PrivateKey
}

// issue makes a certificate; one without an authority is an authority.
func (i *issuer) issue(name, authority string, subject pkix.Name, usage x509.ExtKeyUsage) pair {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.serial++
	template := &x509.Certificate{SerialNumber: big.NewInt(i.serial), Subject: subject, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true}
	parent, signer := template, key
	if authority == "" {
		template.IsCA = true
		template.KeyUsage |= x509.KeyUsageCertSign
	} else {
		parent, signer = i.certificate[authority], i.key[authority]
		template.ExtKeyUsage = []x509.ExtKeyUsage{usage}
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		i.t.Fatal(err)
	}
	if i.certificate[name], err = x509.ParseCertificate(der); err != nil {
		i.t.Fatal(err)
	}
	i.key[name] = key
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		i.t.Fatal(err)
	}
	files := pair{filepath.Join(i.dir, name+".crt"), filepath.Join(i.dir, name+".key")}
	for file, block := range map[string]*pem.Block{files.cert: {Type: "CERTIFICATE", Bytes: der},
		files.key: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			i.t.Fatal(err)
		}
	}
	return files
}

func makePKI(t *testing.T, dir string) *pki {
	t.Helper()
	i := &issuer{t: t, dir: dir, certificate: map[string]*x509.Certificate{}, key: map[string]*ecdsa.PrivateKey{}}
	p := &pki{audit: filepath.Join(dir, "audit.yaml"), issuer: i}
	policy := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
	if err := os.WriteFile(p.audit, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	p.servers = i.issue("servers", "", pkix.Name{CommonName: "servers"}, 0)
	p.clients = i.issue("clients", "", pkix.Name{CommonName: "clients"}, 0)
	p.proxies = i.issue("proxies", "", pkix.Name{CommonName: "proxies"}, 0)
	p.serving = i.issue("serving", "servers", pkix.Name{CommonName: "server"}, x509.ExtKeyUsageServerAuth)
	p.user = i.issue("alice", "clients", pkix.Name{CommonName: "alice", Organization: []string{admins, "system:kcp:admin"}}, x509.ExtKeyUsageClientAuth)
	p.master = i.issue("master", "clients", pkix.Name{CommonName: "master", Organization: []string{"system:masters"}}, x509.ExtKeyUsageClientAuth)
	p.proxy = i.issue("proxy", "proxies", pkix.Name{CommonName: "kcp-front-proxy"}, x509.ExtKeyUsageClientAuth)
	p.people = map[string]pair{}
	for _, name := range []string{"u1", "u2", "u3"} {
		p.people[name] = i.issue(name, "clients", pkix.Name{CommonName: name}, x509.ExtKeyUsageClientAuth)
	}
	return p
}

func load(t *testing.T, files pair) *merge.Pair {
	t.Helper()
	both, err := tls.LoadX509KeyPair(files.cert, files.key)
	if err != nil {
		t.Fatal(err)
	}
	return &merge.Pair{TLS: both}
}

func trust(t *testing.T, p *pki) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(p.servers.cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}
