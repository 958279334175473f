package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/internal/model/clusterstate"
	"github.com/sallyport/sallyport/internal/model/state"
)

const gatewayAPI = "gateway.networking.k8s.io"

// gatewayKinds are kinds that the API server may not serve; any served version is accepted.
var gatewayKinds = []schema.GroupKind{
	{Group: gatewayAPI, Kind: "GatewayClass"},
	{Group: gatewayAPI, Kind: "Gateway"},
	{Group: gatewayAPI, Kind: "HTTPRoute"},
	{Group: gatewayAPI, Kind: "GRPCRoute"},
	{Group: gatewayAPI, Kind: "TLSRoute"},
	{Group: gatewayAPI, Kind: "TCPRoute"},
	{Group: gatewayAPI, Kind: "UDPRoute"},
	{Group: envoyGV.Group, Kind: "Backend"},
}

// gatewayList holds the objects of such a kind.
type gatewayList struct {
	kind  schema.GroupKind
	items []gatewayObject
}

// gatewayObject contains the fields that we use, of all these kinds.
type gatewayObject struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		GatewayClassName string `json:"gatewayClassName"`
		ControllerName   string `json:"controllerName"`
		Listeners        []struct {
			Name, Protocol string
			Port           int
			TLS            struct{ Mode string }
		} `json:"listeners"`
		Hostnames  []string          `json:"hostnames"`
		ParentRefs []gatewayRef      `json:"parentRefs"`
		Rules      []gatewayRule     `json:"rules"`
		Endpoints  []gatewayEndpoint `json:"endpoints"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition       `json:"conditions"`
		Addresses  []struct{ Value string } `json:"addresses"`
		Parents    []struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"parents"`
	} `json:"status"`
}

type gatewayRule struct {
	BackendRefs []gatewayRef `json:"backendRefs"`
}

type gatewayRef struct{ Kind, Namespace, Name string }

// gatewayEndpoint has exactly one of these fields.
type gatewayEndpoint struct {
	IP *struct {
		Address string
		Port    int
	} `json:"ip"`
	FQDN *struct {
		Hostname string
		Port     int
	} `json:"fqdn"`
	Unix *struct{ Path string } `json:"unix"`
}

// listGatewayObjects reads the objects of a kind if the API server serves it.
func (s *ClusterReader) listGatewayObjects(ctx context.Context, f *gatewayList) error {
	mapping, err := s.api.RESTMapper().RESTMapping(f.kind)
	if err != nil {
		return ignoreMissingKind(err)
	}
	var list unstructured.UnstructuredList
	list.SetGroupVersionKind(mapping.GroupVersionKind)
	if err := s.api.List(ctx, &list); err != nil {
		return err
	}
	for _, u := range list.Items {
		var o gatewayObject
		raw, err := u.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(raw, &o)
		}
		if err != nil {
			return fmt.Errorf("read %s %s/%s: %w", f.kind.Kind, u.GetNamespace(), u.GetName(), err)
		}
		f.items = append(f.items, o)
	}
	return nil
}

func (e *clusterDump) readGatewayObjects(into *clusterstate.Cluster) {
	for _, f := range e.gatewayLists {
		switch f.kind.Kind {
		case "GatewayClass":
			into.Classes = readSorted(f.items, readGatewayClass)
		case "Gateway":
			into.Gateways = readSorted(f.items, readGateway)
		case "Backend":
			into.Backends = readSorted(f.items, readBackend)
		default:
			into.Routes = append(into.Routes, readSorted(f.items, func(o *gatewayObject) clusterstate.Route {
				return readRoute(f.kind.Kind, o)
			})...)
		}
	}
	slices.SortStableFunc(into.Routes, func(a, b clusterstate.Route) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
			strings.Compare(a.Kind, b.Kind))
	})
}

func readGatewayClass(o *gatewayObject) clusterstate.GatewayClass {
	return clusterstate.GatewayClass{
		Object:     readObjectMeta("GatewayClass", o, o.Status.Conditions),
		Controller: o.Spec.ControllerName,
	}
}

func readGateway(o *gatewayObject) clusterstate.Gateway {
	out := clusterstate.Gateway{Object: readObjectMeta("Gateway", o, o.Status.Conditions), Class: o.Spec.GatewayClassName}
	for _, l := range o.Spec.Listeners {
		out.Listeners = append(out.Listeners,
			strings.TrimSpace(fmt.Sprintf("%s %s %d %s", l.Name, l.Protocol, l.Port, l.TLS.Mode)))
	}
	for _, a := range o.Status.Addresses {
		out.Addresses = append(out.Addresses, a.Value)
	}
	return out
}

// readRoute reads a route. Its conditions are those of the last parent gateway.
func readRoute(kind string, o *gatewayObject) clusterstate.Route {
	var conditions []metav1.Condition
	for _, p := range o.Status.Parents {
		conditions = p.Conditions
	}
	out := clusterstate.Route{Object: readObjectMeta(kind, o, conditions), Hosts: o.Spec.Hostnames}
	for _, p := range o.Spec.ParentRefs {
		if cmp.Or(p.Kind, "Gateway") == "Gateway" {
			out.Gateways = append(out.Gateways, cmp.Or(p.Namespace, o.Namespace)+"/"+p.Name)
		}
	}
	for _, rule := range o.Spec.Rules {
		for _, b := range rule.BackendRefs {
			out.Backends = append(out.Backends,
				state.Ref{Kind: cmp.Or(b.Kind, "Service"), Namespace: cmp.Or(b.Namespace, o.Namespace), Name: b.Name})
		}
	}
	return out
}

func readBackend(o *gatewayObject) clusterstate.Backend {
	out := clusterstate.Backend{Object: readObjectMeta("Backend", o, o.Status.Conditions)}
	for _, e := range o.Spec.Endpoints {
		switch {
		case e.IP != nil:
			out.Endpoints = append(out.Endpoints, fmt.Sprintf("%s:%d", e.IP.Address, e.IP.Port))
		case e.FQDN != nil:
			out.Endpoints = append(out.Endpoints, fmt.Sprintf("%s:%d", e.FQDN.Hostname, e.FQDN.Port))
		case e.Unix != nil:
			out.Endpoints = append(out.Endpoints, "unix:"+e.Unix.Path)
		}
	}
	return out
}
