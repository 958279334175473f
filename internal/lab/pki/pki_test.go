package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// side is one end of a connection: its own certificate, and the authority whose certificates it takes.
func side(t *testing.T, own, trusted Files) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(trusted.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		t.Fatalf("no certificate in %s", trusted.CA)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert,
		// a foreign one too
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil },
	}
}

// shake makes a TLS connection to host and says whom the server saw.
func shake(server, client *tls.Config, host string) (seen *x509.Certificate, err error) {
	a, b := net.Pipe()
	client.ServerName = host
	far, near := tls.Server(a, server), tls.Client(b, client)
	result := make(chan error, 1)
	go func() {
		err := far.Handshake()
		_ = a.Close()
		result <- err
	}()
	errClient := near.Handshake()
	if errClient == nil {
		_, _ = near.Read(make([]byte, 1)) // with TLS 1.3 the server's refusal comes after the client is content
	}
	_ = b.Close()
	if err := errors.Join(errClient, <-result); err != nil {
		return nil, err
	}
	return far.ConnectionState().PeerCertificates[0], nil
}

// authority makes an authority and a certificate of each name for the same hosts.
func authority(t *testing.T, names ...string) (out []Files) {
	t.Helper()
	a, err := New(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		files, err := a.Issue(Subject{
			Name:   name,
			Groups: []string{"system:masters"},
			Hosts:  []string{"localhost", "172.30.0.1", "::1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, files)
	}
	return out
}

func TestCertificates(t *testing.T) {
	ours, foreign := authority(t, "one", "two"), authority(t, "one")[0]
	one, two := ours[0], ours[1]
	for _, c := range []struct {
		what           string
		server, client *tls.Config
		host           string
		good           bool
	}{
		{"one asks two", side(t, two, two), side(t, one, one), "172.30.0.1", true},
		{"two asks one", side(t, one, one), side(t, two, two), "::1", true},
		{"by name", side(t, two, two), side(t, one, one), "localhost", true},
		{"at an address that is not the certificate's", side(t, two, two), side(t, one, one), "172.30.0.2", false},
		{"a foreign client", side(t, two, two), side(t, foreign, two), "localhost", false},
		{"a foreign server", side(t, foreign, two), side(t, two, two), "localhost", false},
		{"two foreigners", side(t, foreign, foreign), side(t, foreign, foreign), "localhost", true},
	} {
		seen, err := shake(c.server, c.client, c.host)
		if (err == nil) != c.good {
			t.Errorf("%s: %v, want it to work: %t", c.what, err, c.good)
		}
		if c.what == "one asks two" && seen != nil && seen.Subject.String() != "CN=one,O=system:masters" {
			t.Errorf("the server saw %s", seen.Subject)
		}
	}
	if info, err := os.Stat(one.Key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want the key readable by its owner only", info.Mode(), err)
	}
}
