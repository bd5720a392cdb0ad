package growing

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"time"
)

// servers are the pairs that processes show, and where: processes of one shard, proxies and members of etcd share theirs.
var servers = map[string][]string{
	"shard-root":    {"root-a", "root-b"},
	"shard-shard-1": {"shard-1-a", "shard-1-b"},
	"proxy":         proxies,
	"etcd":          etcds,
}

// clientPairs are those that proxies and shards show to others.
var clientPairs = []string{"etcd-client", "kintsugi-proxy", "proxy-requestheader"}

// another is a CA of which nobody but etcd's members knows at first.
const another = "another-ca"

var authorities = []string{"serving-ca", "client-ca", "requestheader-ca", another}

// found makes another CA.
func (w *World) found() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	wish := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: another}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(300 * 24 * time.Hour)}
	made, err := x509.CreateCertificate(rand.Reader, wish, wish, key.Public(), key)
	if err != nil {
		return err
	}
	return w.write(another, key, made)
}

// issuer finds out who has signed a pair.
func (w *World) issuer(pair *x509.Certificate) (string, error) {
	for _, authority := range authorities {
		issuer, err := w.certificate(authority)
		if err != nil {
			return "", err
		}
		if pair.CheckSignatureFrom(issuer) == nil {
			return authority, nil
		}
	}
	return "", fmt.Errorf("nobody has signed %s", pair.Subject)
}

// sign replaces a server's certificate by one for all addresses.
func (w *World) sign(name string) error {
	wish := &x509.Certificate{Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("::1")}}
	for _, host := range w.network.hosts {
		wish.IPAddresses = append(wish.IPAddresses, net.ParseIP(host.address))
	}
	_, err := w.issue("serving-ca", name, wish)
	return err
}

// renew replaces a pair by one with another key and number that says the same. The authority may be another one; "": it stays.
func (w *World) renew(name, authority string) (*big.Int, error) {
	old, err := w.certificate(name)
	if err != nil {
		return nil, err
	}
	if authority == "" {
		if authority, err = w.issuer(old); err != nil {
			return nil, err
		}
	}
	return w.issue(authority, name, &x509.Certificate{Subject: old.Subject, KeyUsage: old.KeyUsage, ExtKeyUsage: old.ExtKeyUsage,
		DNSNames: old.DNSNames, IPAddresses: old.IPAddresses, URIs: old.URIs})
}

func (w *World) certificate(name string) (*x509.Certificate, error) {
	text, err := os.ReadFile(w.pki(name + ".crt"))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s.crt has no certificate", name)
	}
	return x509.ParseCertificate(block.Bytes)
}

// issue writes a pair. Between its two files who reads them has halves of two pairs, as in life.
func (w *World) issue(authority, name string, wish *x509.Certificate) (*big.Int, error) {
	ca, err := tls.LoadX509KeyPair(w.pki(authority+".crt"), w.pki(authority+".key"))
	if err != nil {
		return nil, err
	}
	issuer, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if wish.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)); err != nil {
		return nil, err
	}
	wish.NotBefore, wish.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(300*24*time.Hour)
	made, err := x509.CreateCertificate(rand.Reader, wish, issuer, key.Public(), ca.PrivateKey)
	if err != nil {
		return nil, err
	}
	return wish.SerialNumber, w.write(name, key, made)
}

// write replaces the two files of a pair.
func (w *World) write(name string, key *ecdsa.PrivateKey, made []byte) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		file, kind string
		content    []byte
	}{{name + ".key", "PRIVATE KEY", private}, {name + ".crt", "CERTIFICATE", made}} {
		if err := w.replace(part.file, pem.EncodeToMemory(&pem.Block{Type: part.kind, Bytes: part.content})); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) replace(file string, content []byte) error {
	next := w.pki(file + ".next")
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, w.pki(file))
}

// shows asks a server for the number of its certificate.
func (w *World) shows(name string) (*big.Int, error) {
	pair, err := tls.LoadX509KeyPair(w.pki("shard-admin.crt"), w.pki("shard-admin.key"))
	if err != nil {
		return nil, err
	}
	// Whose it is does not matter here: the number does.
	config := &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true, NextProtos: []string{"h2"}} // #nosec G402
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	connection, err := tls.DialWithDialer(dialer, "tcp", w.url(name)[len("https://"):], config)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber, nil
}

// rotate replaces a pair in its place. Servers have to show the new one by themselves.
func (f *Faults) rotate(wait func()) (string, error) {
	names := append([]string(nil), clientPairs...)
	for name := range servers {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[int(f.number(float64(len(names))))]
	what := "rotate " + name
	if !f.begin(what) {
		return "", nil
	}
	defer f.end(what)
	f.w.Say("%s", what)
	number, err := f.w.renew(name, "")
	if err != nil {
		return what, err
	}
	wait()
	f.shown(what, name, number)
	return what, nil
}

// shown waits until all servers show the pair with this number.
func (f *Faults) shown(what, name string, number *big.Int) {
	for _, host := range servers[name] {
		if err := f.until(func() error {
			shown, err := f.w.shows(host)
			if err == nil && shown.Cmp(number) != 0 {
				err = fmt.Errorf("%s shows the certificate of before", host)
			}
			return err
		}); err != nil {
			f.w.Fail("%s: %v", what, err)
		}
	}
}

// authority lets another CA sign what etcd's members show to all and to each other, and what ours show to them; and the old one again
// the next time. Ours are told of it before: what they read last may still be the list without it.
func (f *Faults) authority(wait func()) (string, error) {
	const server, client = "etcd", "etcd-client"
	for _, name := range []string{server, client} {
		if !f.begin("rotate " + name) {
			return "", nil
		}
		defer f.end("rotate " + name)
	}
	now, err := f.w.certificate(server)
	if err != nil {
		return "", err
	}
	by := map[string]string{server: another, client: another}
	if was, err := f.w.issuer(now); err != nil {
		return "", err
	} else if was == another {
		by = map[string]string{server: "serving-ca", client: "client-ca"}
	}
	what := fmt.Sprintf("etcd's certificates by %s and %s", by[server], by[client])
	f.w.Say("%s", what)
	if err := f.w.trust(another); err != nil {
		return what, err
	}
	wait()
	if _, err := f.w.renew(client, by[client]); err != nil {
		return what, err
	}
	number, err := f.w.renew(server, by[server])
	if err != nil {
		return what, err
	}
	f.shown(what, server, number)
	return what, nil
}

// trust adds an authority to those whose servers are taken.
func (w *World) trust(authority string) error {
	const list = "serving-ca.crt"
	known, err := os.ReadFile(w.pki(list))
	if err != nil {
		return err
	}
	more, err := os.ReadFile(w.pki(authority + ".crt"))
	if err != nil || bytes.Contains(known, more) {
		return err
	}
	return w.replace(list, append(known, more...))
}
