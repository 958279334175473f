package mtls

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCertFile writes a file with certificates that expire at the given times.
func writeCertFile(t *testing.T, ends ...time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for i, end := range ends {
		c := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), NotBefore: end.Add(-time.Hour), NotAfter: end}
		raw, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: raw}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "chain.crt")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExpires(t *testing.T) {
	first := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	later := first.AddDate(1, 0, 0)
	for _, ends := range [][]time.Time{{first}, {first, later}, {later, first}} {
		if got, err := EarliestExpiry(writeCertFile(t, ends...)); err != nil || !got.Equal(first) {
			t.Errorf("%v: %v, %v; want %v", ends, got, err, first)
		}
	}
	if got, err := EarliestExpiry(writeCertFile(t)); err == nil {
		t.Errorf("a file without a certificate ends at %v", got)
	}
}
