package kube

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sallyport/sallyport/internal/model/installation"
)

// ovnCertificates is the purpose of the Secret with certificates for OVN's databases.
const ovnCertificates = "certificates for OVN's databases"

// readSecrets reads the Secrets that the installed workloads refer to, and the one for OVN's databases. A Secret that
// can't be read says so itself: whoever may read one may lack permission for another.
func (r *InstallationReader) readSecrets(ctx context.Context, out *installation.Cluster) error {
	for _, s := range r.listReferredSecrets(out) {
		var secret corev1.Secret
		err := r.API.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Name}, &secret)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			s.Unread = err.Error()
		default:
			s.Exists = true
			inspectSecret(&s, secret.Data)
		}
		out.Secrets = append(out.Secrets, s)
	}
	return nil
}

// listReferredSecrets returns the Secrets that an installation refers to.
func (r *InstallationReader) listReferredSecrets(c *installation.Cluster) (out []installation.Secret) {
	for _, w := range []*installation.Workload{c.Controller, c.Agent} {
		if w != nil {
			out = append(out, w.Secrets...)
		}
	}
	name := r.Options.TLSSecret
	if name == "" && c.Controller == nil && c.Engine != nil && c.Engine.TLS {
		name = tlsSecretName
	}
	isListed := slices.ContainsFunc(out, func(s installation.Secret) bool {
		return s.Namespace == r.Options.Controller && s.Name == name
	})
	if name != "" && !isListed {
		out = append(out, installation.Secret{
			Namespace: r.Options.Controller, Name: name, Purpose: ovnCertificates, Wanted: []string{caKey, certKey, keyKey},
		})
	}
	return out
}

// referredSecrets returns the Secrets that a pod mounts or that its images are pulled with.
func referredSecrets(namespace string, pod corev1.PodSpec) (out []installation.Secret) {
	for _, v := range pod.Volumes {
		if v.Secret == nil {
			continue
		}
		s := installation.Secret{Namespace: namespace, Name: v.Secret.SecretName, Purpose: "volume " + v.Name}
		switch v.Name {
		case "ovn-tls":
			s.Purpose, s.Wanted = ovnCertificates, []string{caKey, certKey, keyKey}
		case "health-tls":
			s.Purpose, s.Wanted = "certificates for health checks", []string{"ca.crt", corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
		case "metrics-tls":
			s.Purpose, s.Wanted = "certificate for metrics", []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
		}
		out = append(out, s)
	}
	for _, s := range pod.ImagePullSecrets {
		out = append(out, installation.Secret{
			Namespace: namespace, Name: s.Name, Purpose: "image pull secret", Wanted: []string{corev1.DockerConfigJsonKey},
		})
	}
	return out
}

// inspectSecret notes which keys are missing, and until when the certificate is valid. No content leaves this function.
func inspectSecret(s *installation.Secret, data map[string][]byte) {
	for _, key := range s.Wanted {
		if len(data[key]) == 0 {
			s.MissingKeys = append(s.MissingKeys, key)
		}
	}
	raw := data[cmp.Or(presentKey(data, certKey), corev1.TLSCertKey)]
	if len(raw) == 0 {
		return
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		s.Invalid = "the certificate is not PEM"
		return
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.Invalid = "the certificate can't be parsed"
		return
	}
	s.Expires = certificate.NotAfter.UTC()
	authority := data[cmp.Or(presentKey(data, caKey), "ca.crt")]
	pool := x509.NewCertPool()
	if len(authority) == 0 || !pool.AppendCertsFromPEM(authority) {
		return
	}
	// The time is that of the certificate itself: that it has expired is a finding of its own.
	_, err = certificate.Verify(x509.VerifyOptions{
		Roots: pool, CurrentTime: certificate.NotAfter, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		s.Invalid = "the certificate is not signed by the Secret's CA"
	}
}

// presentKey returns the key if the Secret has it.
func presentKey(data map[string][]byte, key string) string {
	if len(data[key]) == 0 {
		return ""
	}
	return key
}
