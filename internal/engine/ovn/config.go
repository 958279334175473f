package ovn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/engine/mtls"
)

// Config says where a database is.
type Config struct {
	// Endpoints are its servers as OVN writes them, one each: ssl:192.0.2.1:6641, ssl:[2001:db8::1]:6641,
	// unix:/run/ovn/nb.sock.
	Endpoints []string
	// Who we are and whom we trust, for ssl: endpoints, in PEM. Files are read again for each connection.
	CertFile, KeyFile, CAFile string
	// Certificates are the same where there are no files.
	Certificates mtls.PEM
}

// NeedsTLS says whether an endpoint needs certificates.
func (c Config) NeedsTLS() bool {
	return slices.ContainsFunc(c.Endpoints, func(e string) bool { return strings.HasPrefix(e, "ssl:") })
}

// loadTLSConfig reads the certificates. It is nil where no endpoint needs them.
func (c Config) loadTLSConfig() (*tls.Config, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("no endpoint of the OVN database is known; give --nb-address and --sb-address, or set OVN_NB_DB and OVN_SB_DB")
	}
	if !c.NeedsTLS() {
		return nil, nil
	}
	files := mtls.Files{Cert: c.CertFile, Key: c.KeyFile, CA: c.CAFile}
	if !files.IsConfigured() && len(c.Certificates.Cert) == 0 {
		return nil, errors.New("the OVN databases want certificates; give --nb-cert, --nb-key and --nb-ca")
	}
	texts := c.Certificates
	if files.IsConfigured() {
		var err error
		if texts, err = files.ReadPEM(); err != nil {
			return nil, fmt.Errorf("for the OVN databases: %w", err)
		}
	}
	secrets, err := texts.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("for the OVN databases: %w", err)
	}
	return secrets, nil
}

// CertificateExpiry is when our own certificate ends; zero: there is none.
func (c Config) CertificateExpiry() time.Time {
	secrets, err := c.loadTLSConfig()
	if err != nil || secrets == nil || secrets.Certificates[0].Leaf == nil {
		return time.Time{}
	}
	return secrets.Certificates[0].Leaf.NotAfter.UTC()
}
