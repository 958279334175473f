package ovn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/internal/mutual"
)

// Config says where a database is.
type Config struct {
	// Endpoints are its servers as OVN writes them, one each: ssl:192.0.2.1:6641, ssl:[2001:db8::1]:6641, unix:/run/ovn/nb.sock.
	Endpoints []string
	// Who we are and whom we trust, for ssl: endpoints, in PEM. Files are read again for each connection.
	CertFile, KeyFile, CAFile string
	// Secrets are the same where there are no files.
	Secrets mutual.Texts
}

// Secret says whether an endpoint needs certificates.
func (c Config) Secret() bool {
	return slices.ContainsFunc(c.Endpoints, func(e string) bool { return strings.HasPrefix(e, "ssl:") })
}

// tls reads the certificates. It is nil where no endpoint needs them.
func (c Config) tls() (*tls.Config, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("no endpoint of the OVN database is known; give --nb-address and --sb-address, or set OVN_NB_DB and OVN_SB_DB")
	}
	if !c.Secret() {
		return nil, nil
	}
	files := mutual.Files{Cert: c.CertFile, Key: c.KeyFile, CA: c.CAFile}
	if !files.Given() && len(c.Secrets.Cert) == 0 {
		return nil, errors.New("the OVN databases want certificates; give --nb-cert, --nb-key and --nb-ca")
	}
	texts := c.Secrets
	if files.Given() {
		var err error
		if texts, err = files.Read(); err != nil {
			return nil, fmt.Errorf("for the OVN databases: %w", err)
		}
	}
	secrets, err := texts.Client()
	if err != nil {
		return nil, fmt.Errorf("for the OVN databases: %w", err)
	}
	return secrets, nil
}

// Expires is when our own certificate ends; zero: there is none.
func (c Config) Expires() time.Time {
	secrets, err := c.tls()
	if err != nil || secrets == nil || secrets.Certificates[0].Leaf == nil {
		return time.Time{}
	}
	return secrets.Certificates[0].Leaf.NotAfter.UTC()
}
