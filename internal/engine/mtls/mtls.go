// Package mtls is TLS in which both sides present a certificate of the same authority.
//
// OVN's certificates name no host, neither those of ovs-pki nor Kube-OVN's. OVN's own programs check only that the
// authority has signed the certificate, and so does PEM.ClientConfig. Between our own programs, each has a name (DNS
// SAN) that the other one checks: a certificate of the same authority for another role is refused (Files.PeerName).
package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Files are the certificate, its key and the authority, in PEM.
type Files struct {
	Cert, Key, CA string
	// PeerName is the DNS name that the peer's certificate must have. Empty: any certificate of the authority.
	PeerName string
}

// PEM has the contents of such files.
type PEM struct{ Cert, Key, CA []byte }

// IsConfigured reports whether any file is set.
func (f Files) IsConfigured() bool { return f.Cert != "" || f.Key != "" || f.CA != "" }

// ClientConfig returns the configuration of the client side. Changed files are read again for the next connection.
func (f Files) ClientConfig() (*tls.Config, error) {
	k, err := f.newReloader()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &k.currentMaterial().pair, nil
		},
		// The name is that of a role and not of a host, and is checked with the authority below.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks the authority and the name of the role
		VerifyConnection: func(s tls.ConnectionState) error {
			return verifyPeer(s.PeerCertificates, k.currentMaterial().roots, x509.ExtKeyUsageServerAuth, f.PeerName)
		},
	}, nil
}

// ServerConfig returns the configuration of the server side. Changed files are read again for the next connection.
func (f Files) ServerConfig() (*tls.Config, error) {
	k, err := f.newReloader()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAnyClientCert, // verified below, with the current authority
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return &k.currentMaterial().pair, nil
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			return verifyPeer(s.PeerCertificates, k.currentMaterial().roots, x509.ExtKeyUsageClientAuth, f.PeerName)
		},
	}, nil
}

// EarliestExpiry returns when the first of the certificates in a file expires.
func EarliestExpiry(file string) (time.Time, error) {
	var first time.Time
	rest, err := os.ReadFile(file) //nolint:gosec // a file that the operator names
	if err != nil {
		return first, err
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return first, fmt.Errorf("read %s: %w", file, err)
		}
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	if first.IsZero() {
		return first, fmt.Errorf("%s contains no certificate", file)
	}
	return first, nil
}

// ReadPEM reads the files.
func (f Files) ReadPEM() (out PEM, err error) {
	for _, file := range []struct {
		name, what string
		to         *[]byte
	}{{f.Cert, "certificate", &out.Cert}, {f.Key, "certificate's key", &out.Key}, {f.CA, "authority", &out.CA}} {
		if *file.to, err = os.ReadFile(file.name); err != nil {
			return out, fmt.Errorf("read the %s: %w", file.what, err)
		}
	}
	return out, nil
}

// ClientConfig returns the configuration of the client side.
func (t PEM) ClientConfig() (*tls.Config, error) {
	m, err := t.parseMaterial()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{m.pair},
		MinVersion:   tls.VersionTLS12,
		// The name is not checked; the authority is.
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks the authority; OVN's certificates name nobody
		VerifyConnection: func(s tls.ConnectionState) error {
			return verifyPeer(s.PeerCertificates, m.roots, x509.ExtKeyUsageServerAuth, "")
		},
	}, nil
}

// tlsMaterial is the parsed content of the files.
type tlsMaterial struct {
	pair  tls.Certificate
	roots *x509.CertPool
}

func (t PEM) parseMaterial() (out *tlsMaterial, err error) {
	out = &tlsMaterial{}
	if out.pair, err = tls.X509KeyPair(t.Cert, t.Key); err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	out.roots = x509.NewCertPool()
	if !out.roots.AppendCertsFromPEM(t.CA) {
		return nil, errors.New("the file of the authority contains no certificate")
	}
	return out, nil
}

// verifyPeer checks that the first certificate of a chain is signed by one of the roots, and has a name. An empty name
// matches any certificate.
func verifyPeer(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, name string) error {
	if len(chain) == 0 {
		return errors.New("the peer presented no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: between,
		KeyUsages:     []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return err
	}
	if name != "" && !slices.Contains(chain[0].DNSNames, name) {
		return fmt.Errorf("the peer's certificate is not for %s; issue one with that DNS name", name)
	}
	return nil
}
