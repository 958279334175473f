package mtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	template := a.certTemplate("authority", time.Now().Add(time.Hour))
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.key = a.newKey()
	a.cert = a.signCert(template, template, a.key, a.key)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) certTemplate(name string, ends time.Time, usages ...x509.ExtKeyUsage) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		a.t.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: ends.Add(-2 * time.Hour), NotAfter: ends,
		ExtKeyUsage: usages,
	}
}

func (a *authority) signCert(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := x509.ParseCertificate(raw)
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

// issueFiles writes a certificate for a name, with its key and its authority, to a directory, like a mounted Secret.
func (a *authority) issueFiles(dir, name string, ends time.Time, usages ...x509.ExtKeyUsage) Files {
	a.t.Helper()
	key := a.newKey()
	template := a.certTemplate("a certificate", ends, usages...)
	if name != "" {
		template.DNSNames = []string{name}
	}
	cert := a.signCert(template, a.cert, key, a.key)
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	files := Files{
		Cert: filepath.Join(dir, "tls.crt"),
		Key:  filepath.Join(dir, "tls.key"),
		CA:   filepath.Join(dir, "ca.crt"),
	}
	for file, block := range map[string]*pem.Block{
		files.Cert: {Type: "CERTIFICATE", Bytes: cert.Raw}, files.Key: {Type: "EC PRIVATE KEY", Bytes: raw},
		files.CA: {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return files
}

var bothUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// attemptHandshake connects two sides. It returns why they fail, and when the server's certificate expires.
func attemptHandshake(t *testing.T, client, server *tls.Config) (ends time.Time, err error) {
	t.Helper()
	on, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = on.Close() }()
	answered := make(chan error, 1)
	go func() {
		conn, err := on.Accept()
		if err != nil {
			answered <- err
			return
		}
		secured := tls.Server(conn, server)
		defer func() { _ = secured.Close() }()
		_, err = secured.Write([]byte("x"))
		answered <- err
	}()
	conn, err := tls.Dial("tcp", on.Addr().String(), client)
	if err == nil {
		defer func() { _ = conn.Close() }()
		ends = conn.ConnectionState().PeerCertificates[0].NotAfter
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	return ends, errors.Join(err, <-answered)
}

// tlsConfigs returns both sides of a connection, each with the name it requires of the other.
func tlsConfigs(t *testing.T, client, server Files, peerOfClient, peerOfServer string) (*tls.Config, *tls.Config) {
	t.Helper()
	client.PeerName, server.PeerName = peerOfClient, peerOfServer
	c, err := client.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// A certificate of the same authority for another role is refused on both sides: that of another agent, of OVN, or one
// without a name.
func TestRolesAreChecked(t *testing.T) {
	ours, other := newAuthority(t), newAuthority(t)
	later := time.Now().Add(time.Hour)
	issue := func(a *authority, name string, usages ...x509.ExtKeyUsage) Files {
		return a.issueFiles(t.TempDir(), name, later, usages...)
	}
	agent, controller, nobody := issue(ours, "agent", bothUsages...), issue(ours, "controller", bothUsages...),
		issue(ours, "", bothUsages...)
	for _, c := range []struct {
		what           string
		client, server Files
		refusal        string // empty: the connection succeeds
	}{
		{"both are who they should be", controller, agent, ""},
		{"an agent asks an agent", agent, agent, "not for controller"},
		{"the controller's certificate answers", controller, controller, "not for agent"},
		{"OVN's certificate asks", nobody, agent, "not for controller"},
		{"OVN's certificate answers", controller, nobody, "not for agent"},
		{
			"a name that begins the same asks", issue(ours, "controller.example", bothUsages...), agent,
			"not for controller",
		},
		{"another authority's asks", issue(other, "controller", bothUsages...), agent, "unknown authority"},
		{"another authority's answers", controller, issue(other, "agent", bothUsages...), "unknown authority"},
		{
			"a certificate of servers asks", issue(ours, "controller", x509.ExtKeyUsageServerAuth), agent,
			"incompatible key usage",
		},
		{"one that has ended asks", ours.issueFiles(t.TempDir(), "controller", time.Now().Add(-time.Minute),
			bothUsages...), agent, "expired"},
	} {
		client, server := tlsConfigs(t, c.client, c.server, "agent", "controller")
		_, err := attemptHandshake(t, client, server)
		if c.refusal == "" && err != nil || c.refusal != "" &&
			(err == nil || !strings.Contains(err.Error(), c.refusal)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.refusal)
		}
	}
	client, server := tlsConfigs(t, nobody, nobody, "", "") // control: no required name, any certificate
	if _, err := attemptHandshake(t, client, server); err != nil {
		t.Error(err)
	}
}

// A renewed certificate is used for the next connection, and a new authority is trusted, without a restart. An
// unreadable one is not used.
func TestRenewedFilesAreRead(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	here, there := t.TempDir(), t.TempDir()
	soon, later := time.Now().Add(10*time.Minute).Truncate(time.Second), time.Now().Add(time.Hour).Truncate(time.Second)
	client, server := tlsConfigs(t, first.issueFiles(here, "controller", soon, bothUsages...),
		first.issueFiles(there, "agent", soon, bothUsages...), "agent", "controller")
	check := func(what string, want time.Time) {
		t.Helper()
		if got, err := attemptHandshake(t, client, server); err != nil || !got.Equal(want) {
			t.Errorf("%s: it ends at %v (%v), want %v", what, got, err, want)
		}
	}
	check("at first", soon)
	second.issueFiles(here, "controller", later, bothUsages...)
	if _, err := attemptHandshake(t, client, server); err == nil {
		t.Error("one side has another authority, and they talk")
	}
	second.issueFiles(there, "agent", later, bothUsages...)
	check("with another authority", later)
	if err := os.WriteFile(filepath.Join(there, "tls.crt"), []byte("half of"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("with half a file", later)
}
