// Package webhooks sends writes through admission webhooks that are made with controller-runtime, and through servers that
// answer wrongly, slowly or not at all.
package webhooks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// authority is a CA of the test, and a certificate of it for 127.0.0.1.
type authority struct {
	bundle []byte
	pair   tls.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhooks"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "hook"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	must(err)
	return &authority{bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		pair: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
}

// serve answers over TLS, with HTTP/2, until the end of the test.
func (a *authority) serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{a.pair}, MinVersion: tls.VersionTLS12}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return server.URL + "/hook"
}

// hook is a webhook of controller-runtime that keeps what it was asked.
type hook struct {
	url   string
	mutex sync.Mutex
	asked []admission.Request
}

func (a *authority) hook(t *testing.T, answer func(admission.Request) admission.Response) *hook {
	t.Helper()
	h := &hook{}
	inner := &admission.Webhook{Handler: admission.HandlerFunc(func(_ context.Context, request admission.Request) admission.Response {
		h.mutex.Lock()
		h.asked = append(h.asked, request)
		h.mutex.Unlock()
		return answer(request)
	})}
	handler, err := admission.StandaloneWebhook(inner, admission.StandaloneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.url = a.serve(t, handler)
	return h
}

func (h *hook) requests() []admission.Request {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return append([]admission.Request(nil), h.asked...)
}
