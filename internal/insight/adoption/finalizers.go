package adoption

import (
	"slices"
	"strings"

	kubedcv1 "github.com/sallyport/sallyport/api/kubedc/v1"
	"github.com/sallyport/sallyport/internal/model/intent"
	"github.com/sallyport/sallyport/internal/model/ownership"
)

// Finalizers are finalizers of another controller of our kinds. Once that controller is gone, nobody removes them, and
// the object could never be deleted.
type Finalizers struct {
	Kind            intent.Kind
	Namespace, Name string
	Remove          []string
}

// planFinalizers plans to remove the finalizers of another controller from the Project, its EIps and its FIps.
func (p *planner) planFinalizers() {
	for _, o := range p.Projects {
		if o.Namespace == p.organization && o.Name == p.name {
			p.removeFinalizers(intent.Project, o.Namespace, o.Name, o.Finalizers)
		}
	}
	for _, o := range p.namespaceEIps() {
		p.removeFinalizers(intent.EIp, o.Namespace, o.Name, o.Finalizers)
	}
	for _, o := range p.FIps {
		if o.Namespace == p.VPC {
			p.removeFinalizers(intent.FIp, o.Namespace, o.Name, o.Finalizers)
		}
	}
}

func (p *planner) removeFinalizers(kind intent.Kind, namespace, name string, have []string) {
	remove := slices.DeleteFunc(slices.Clone(have), func(f string) bool {
		domain, _, _ := strings.Cut(f, "/")
		return f == ownership.Finalizer || domain != kubedcv1.GroupVersion.Group && !strings.HasSuffix(domain, "."+kubedcv1.GroupVersion.Group)
	})
	if len(remove) == 0 {
		return
	}
	p.Finalizers = append(p.Finalizers, Finalizers{Kind: kind, Namespace: namespace, Name: name, Remove: remove})
	p.addItem(Change, string(kind), namespace+"/"+name, "", "without the finalizer "+strings.Join(remove, ", ")+
		" of another controller, which would block its deletion")
}
