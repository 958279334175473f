package ovn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeCertificates writes the certificate of an authority, and one for a server and client that it has signed and that
// names no host.
func writeCertificates(t *testing.T, name string) Config {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(file string, template *x509.Certificate) string {
		template.NotAfter = time.Now().Add(time.Hour)
		root := &x509.Certificate{Subject: pkix.Name{CommonName: name}}
		raw, err := x509.CreateCertificate(rand.Reader, template, root, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return writePEM(t, filepath.Join(dir, file), "CERTIFICATE", raw)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		KeyFile: writePEM(t, filepath.Join(dir, "key"), "PRIVATE KEY", raw),
		CAFile: sign("ca", &x509.Certificate{
			SerialNumber:          big.NewInt(1),
			Subject:               pkix.Name{CommonName: name},
			IsCA:                  true,
			BasicConstraintsValid: true,
		}),
		CertFile: sign("cert", &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "ovn"}}),
	}
}

func writePEM(t *testing.T, path, kind string, raw []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A server is trusted if the database's authority has signed its certificate, whatever host the certificate names.
func TestServerMustBeSigned(t *testing.T) {
	good, bad := writeCertificates(t, "one"), writeCertificates(t, "two")
	pair, err := tls.LoadX509KeyPair(good.CertFile, good.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	for trust, c := range map[string]Config{"signed": good, "unknown authority": bad} {
		c.Endpoints = []string{"ssl:" + server.Addr().String()}
		config, err := c.loadTLSConfig()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", server.Addr().String(), config)
		if (err == nil) != (trust == "signed") || (err != nil && !strings.Contains(err.Error(), trust)) {
			t.Errorf("%s: got %v", trust, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func TestDialSaysWhatIsWrong(t *testing.T) {
	good := writeCertificates(t, "one")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ssl := []string{"ssl:127.0.0.1:1"}
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"nothing":        {Config{}, "no endpoint"},
		"no certificate": {Config{Endpoints: ssl}, "set --nb-cert"},
		"no file":        {Config{Endpoints: ssl, CertFile: "missing"}, "read the certificate"},
		"no authority": {
			Config{Endpoints: ssl, CertFile: good.CertFile, KeyFile: good.KeyFile, CAFile: "missing"},
			"read the authority",
		},
		"empty": {
			Config{Endpoints: ssl, CertFile: good.CertFile, KeyFile: good.KeyFile, CAFile: empty},
			"contains no certificate",
		},
		"nobody there": {
			Config{Endpoints: ssl, CertFile: good.CertFile, KeyFile: good.KeyFile, CAFile: good.CAFile},
			"connection refused",
		},
		"no socket": {
			Config{Endpoints: []string{"unix:" + empty}},
			"connect to the OVN northbound database: unix:",
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := Dial(ctx, c.config, slog.New(slog.DiscardHandler))
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v; wanted %q", name, err, c.says)
		}
	}
}
