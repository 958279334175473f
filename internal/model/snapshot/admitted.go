package snapshot

// Admitted is the set that the selectors of an external network admit: namespaces by name, and Projects by ProjectKey.
// Nil: the network has no selectors and admits everybody.
type Admitted map[string]bool

// AdmitsAny reports whether at least one of the names is admitted.
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

// ProjectKey returns the name of a Project in Admitted. It contains a slash, so it can't be the name of a namespace.
func ProjectKey(organization, project string) string { return organization + "/" + project }
