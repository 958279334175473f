// Package pki is a lab's certificate authority: it lives and dies with the lab and is trusted nowhere else.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority issues certificates into a directory.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject is whom a certificate is for. Every certificate serves both ends of a connection.
type Subject struct {
	Name   string   // common name, and the name of the files
	Groups []string // organizations: Kubernetes groups
	Hosts  []string // names and addresses
}

// Files are the PEM files of one certificate.
type Files struct{ CA, Cert, Key string }

const validity = 30 * 24 * time.Hour

// New makes an authority that writes into dir.
func New(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make PKI directory: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA key: %w", err)
	}
	template := certificate(Subject{Name: "sallyport-lab-ca"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, fmt.Errorf("parse CA certificate: %w", err)
	}
	a := &Authority{dir: dir, cert: cert, key: key}
	return a, writePEM(a.file("ca.crt"), "CERTIFICATE", raw)
}

// Issue makes a certificate signed by the authority.
func (a *Authority) Issue(s Subject) (Files, error) {
	files := Files{CA: a.file("ca.crt"), Cert: a.file(s.Name + ".crt"), Key: a.file(s.Name + ".key")}
	key, err := a.Key(s.Name)
	if err != nil {
		return Files{}, err
	}
	raw, err := x509.CreateCertificate(rand.Reader, certificate(s), a.cert, key.Public(), a.key)
	if err != nil {
		return Files{}, fmt.Errorf("sign certificate of %s: %w", s.Name, err)
	}
	return files, writePEM(files.Cert, "CERTIFICATE", raw)
}

// Key makes a bare private key, NAME.key.
func (a *Authority) Key(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of %s: %w", name, err)
	}
	raw, err := x509.MarshalECPrivateKey(key) // the API server reads service account keys in this form only
	if err != nil {
		return nil, fmt.Errorf("encode key of %s: %w", name, err)
	}
	return key, writePEM(a.file(name+".key"), "EC PRIVATE KEY", raw)
}

// Path is where a file of the authority lies.
func (a *Authority) Path(name string) string { return a.file(name) }

func (a *Authority) file(name string) string { return filepath.Join(a.dir, name) }

func certificate(s Subject) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // the kernel's random source does not fail
	}
	c := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.Name, Organization: s.Groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range s.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	return c
}

func writePEM(path, kind string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // a file of the lab's authority
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: raw}), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
