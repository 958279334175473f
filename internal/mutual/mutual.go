// Package mutual is TLS in which both sides show a certificate of one authority, whatever name is in it.
//
// OVN's certificates name no host, neither those of ovs-pki nor Kube-OVN's. OVN's own programs check, as is done here, that the authority
// has signed, and nothing else.
package mutual

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// Files are who we are and whom we trust, in PEM.
type Files struct{ Cert, Key, CA string }

// Texts are the contents of such files.
type Texts struct{ Cert, Key, CA []byte }

// Given says whether there are any.
func (f Files) Given() bool { return f != (Files{}) }

// Client is the side that connects.
func (f Files) Client() (*tls.Config, error) {
	texts, err := f.read()
	if err != nil {
		return nil, err
	}
	return texts.Client()
}

// Server is the side that answers.
func (f Files) Server() (*tls.Config, error) {
	texts, err := f.read()
	if err != nil {
		return nil, err
	}
	pair, roots, err := texts.parse()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// Expires is when the first of the certificates in a file ends.
func Expires(file string) (time.Time, error) {
	var first time.Time
	rest, err := os.ReadFile(file)
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
		return first, fmt.Errorf("%s has no certificate", file)
	}
	return first, nil
}

func (f Files) read() (out Texts, err error) {
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

// Client is the side that connects.
func (t Texts) Client() (*tls.Config, error) {
	pair, roots, err := t.parse()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		// The name is not checked; the authority is.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return signed(s.PeerCertificates, roots) },
	}, nil
}

func (t Texts) parse() (tls.Certificate, *x509.CertPool, error) {
	pair, err := tls.X509KeyPair(t.Cert, t.Key)
	if err != nil {
		return pair, nil, fmt.Errorf("read the certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(t.CA) {
		return pair, nil, errors.New("the authority has no certificate")
	}
	return pair, roots, nil
}

// signed says whether one of the roots stands behind a certificate, the first of the chain that was sent.
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
