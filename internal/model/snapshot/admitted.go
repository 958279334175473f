package snapshot

// Admitted are those whom the selectors of an external network admit: namespaces by name, and Projects by ProjectKey.
// Nil: the network has no selectors and admits everybody.
type Admitted map[string]bool

// AdmitsAny says whether one of several names is admitted.
func (a Admitted) AdmitsAny(names ...string) bool {
	if a == nil {
		return true
	}
	for _, name := range names {
		if a[name] {
			return true
		}
	}
	return false
}

// ProjectKey is the name of a Project among those who are admitted. No namespace has such a name.
func ProjectKey(organization, project string) string { return organization + "/" + project }
