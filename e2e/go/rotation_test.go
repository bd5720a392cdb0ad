package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

const certificateLife = 8 * time.Second

// shortLived writes pairs of a client certificate that end soon, each in the place of the one before.
type shortLived struct {
	folder string
	ca     tls.Certificate
	issuer *x509.Certificate
	serial int64
}

func newShortLived(t *testing.T, installation *Installation) *shortLived {
	t.Helper()
	pki := filepath.Join(installation.State, "pki")
	ca, err := tls.LoadX509KeyPair(filepath.Join(pki, "client-ca.crt"), filepath.Join(pki, "client-ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := x509.ParseCertificate(ca.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return &shortLived{folder: t.TempDir(), ca: ca, issuer: issuer, serial: time.Now().UnixNano()}
}

func (s *shortLived) path(name string) string { return filepath.Join(s.folder, name) }

// renew makes the next pair; also as an ExecCredential that a plug-in prints.
func (s *shortLived) renew() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	s.serial++
	end := time.Now().Add(certificateLife)
	template := &x509.Certificate{SerialNumber: big.NewInt(s.serial), NotBefore: time.Now().Add(-time.Minute), NotAfter: end,
		Subject:  pkix.Name{CommonName: "rotating", Organization: []string{"system:kcp:admin"}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, s.issuer, &key.PublicKey, s.ca.PrivateKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	credential, err := json.Marshal(map[string]any{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": map[string]any{
		"clientCertificateData": string(certificate), "clientKeyData": string(private),
		"expirationTimestamp": end.Add(-certificateLife / 4).UTC().Format(time.RFC3339)}})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"tls.key": private, "tls.crt": certificate, "credential.json": credential} {
		if err := os.WriteFile(s.path(name+".new"), text, 0o600); err != nil {
			return err
		}
		if err := os.Rename(s.path(name+".new"), s.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// anonymous is a configuration without the admin's own pair.
func anonymous(config *rest.Config) *rest.Config {
	config = rest.AnonymousClientConfig(config)
	config.QPS = -1
	return config
}

// SE-T019: certificates end under informers whose credentials are rotated, as files and by an exec plug-in: nothing is listed again, nothing is lost.
func TestSE_T019_InformersOutliveTheirCertificates(t *testing.T) {
	before := transport.CertCallbackRefreshDuration
	transport.CertCallbackRefreshDuration = 500 * time.Millisecond
	t.Cleanup(func() { transport.CertCallbackRefreshDuration = before })
	installation := StartInstallation(t)
	cluster := installation.MakeWorkspace("rotated", "us-east-1")
	ctx := context.Background()
	admin := installation.Config(cluster)
	client := Typed(t, admin)
	pairs := newShortLived(t, installation)
	if err := pairs.renew(); err != nil {
		t.Fatal(err)
	}
	files := anonymous(admin)
	files.TLSClientConfig.CertFile, files.TLSClientConfig.KeyFile = pairs.path("tls.crt"), pairs.path("tls.key")
	plugin := anonymous(admin)
	plugin.ExecProvider = &clientapi.ExecConfig{Command: "cat", Args: []string{pairs.path("credential.json")},
		APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientapi.NeverExecInteractiveMode}
	observers := map[string]*observer{}
	for name, config := range map[string]*rest.Config{"rotated files": files, "exec plug-in": plugin} {
		o := dynamicObserver(t, config)
		o.name = name
		o.start(t)
		observers[name] = o
	}
	for _, o := range observers {
		Eventually(t, 20*time.Second, "synced", func() error {
			if !o.informer.HasSynced() {
				return fmt.Errorf("%s is not synced: %v", o.name, o.requests)
			}
			return nil
		})
	}
	written := 0
	renewed := time.Now()
	for end := time.Now().Add(4 * certificateLife); time.Now().Before(end); written++ {
		if time.Since(renewed) > certificateLife/2 {
			if err := pairs.renew(); err != nil {
				t.Fatal(err)
			}
			renewed = time.Now()
		}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("r%04d", written)}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // the pace of the writer, not a wait for something
	}
	for _, o := range observers {
		o.equals(t, client, 30*time.Second)
		if err := o.faults.err(); err != nil {
			t.Error(err)
		}
		t.Log(o.numbers())
		o.mutex.Lock()
		if o.events["added"] < written || o.events["found deleted"] != 0 {
			t.Errorf("%s: %d written, %v", o.name, written, o.events)
		}
		o.mutex.Unlock()
		o.requests.mutex.Lock()
		if len(o.requests.watchLists) != 1 || len(o.requests.lists) != 0 {
			t.Errorf("%s listed again: %d watch-lists, %d lists", o.name, len(o.requests.watchLists), len(o.requests.lists))
		}
		if len(o.requests.watches) < 3 {
			t.Errorf("%s had %d watches: its certificates did not end", o.name, len(o.requests.watches))
		}
		o.requests.mutex.Unlock()
	}
}
