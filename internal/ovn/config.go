package ovn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Config says where the northbound database is.
type Config struct {
	// Endpoints are its servers as OVN writes them, one each: ssl:192.0.2.1:6641, ssl:[2001:db8::1]:6641, unix:/run/ovn/nb.sock.
	Endpoints []string
	// Who we are and whom we trust, for ssl: endpoints, in PEM.
	CertFile, KeyFile, CAFile string
}

// tls reads the certificates. It is nil where no endpoint needs them.
func (c Config) tls() (*tls.Config, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("no endpoint of the OVN northbound database is given")
	}
	if !slices.ContainsFunc(c.Endpoints, func(e string) bool { return strings.HasPrefix(e, "ssl:") }) {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate for the OVN northbound database: %w", err)
	}
	authority, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the authority of the OVN northbound database: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate", c.CAFile)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		// OVN's certificates name no host, neither those of ovs-pki nor Kube-OVN's. OVN's own clients check, as we do here,
		// that the authority of the database has signed, and nothing else.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return signed(s.PeerCertificates, roots) },
	}, nil
}

// signed says whether one of the roots stands behind a server's certificate, the first of the chain it sent.
func signed(chain []*x509.Certificate, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errors.New("the server showed no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
	return err
}
