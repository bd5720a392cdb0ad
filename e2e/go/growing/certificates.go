package growing

import (
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

var authorities = []string{"serving-ca", "client-ca", "requestheader-ca"}

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

// renew replaces a pair by one with another key and number that says the same.
func (w *World) renew(name string) (*big.Int, error) {
	old, err := w.certificate(name)
	if err != nil {
		return nil, err
	}
	for _, authority := range authorities {
		issuer, err := w.certificate(authority)
		if err != nil {
			return nil, err
		}
		if old.CheckSignatureFrom(issuer) == nil {
			return w.issue(authority, name, &x509.Certificate{Subject: old.Subject, KeyUsage: old.KeyUsage, ExtKeyUsage: old.ExtKeyUsage,
				DNSNames: old.DNSNames, IPAddresses: old.IPAddresses, URIs: old.URIs})
		}
	}
	return nil, fmt.Errorf("nobody has signed %s", name)
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
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		file, kind string
		content    []byte
	}{{name + ".key", "PRIVATE KEY", private}, {name + ".crt", "CERTIFICATE", made}} {
		next := w.pki(part.file + ".next")
		if err := os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: part.kind, Bytes: part.content}), 0o600); err != nil {
			return nil, err
		}
		if err := os.Rename(next, w.pki(part.file)); err != nil {
			return nil, err
		}
	}
	return wish.SerialNumber, nil
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
	number, err := f.w.renew(name)
	if err != nil {
		return what, err
	}
	wait()
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
	return what, nil
}
