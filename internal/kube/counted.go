package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Counted is a client that tells of every write that it sends: its verb (create, update, patch, apply, delete) and the kind
// of object; the kind of a status is "EIp/status".
func Counted(c client.Client, wrote func(verb, kind string)) client.Client {
	return &counted{Client: c, wrote: wrote}
}

type counted struct {
	client.Client
	wrote func(verb, kind string)
}

func (c *counted) count(verb string, o any, subresource string) {
	kind := "unknown"
	switch o := o.(type) {
	case client.Object:
		if gvk, err := c.GroupVersionKindFor(o); err == nil {
			kind = gvk.Kind
		}
	case interface{ GetKind() *string }: // a typed apply configuration
		if o.GetKind() != nil {
			kind = *o.GetKind()
		}
	}
	c.wrote(verb, kind+subresource)
}

func (c *counted) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	c.count("create", o, "")
	return c.Client.Create(ctx, o, opts...)
}

func (c *counted) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	c.count("update", o, "")
	return c.Client.Update(ctx, o, opts...)
}

func (c *counted) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	c.count("patch", o, "")
	return c.Client.Patch(ctx, o, patch, opts...)
}

func (c *counted) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	c.count("apply", o, "")
	return c.Client.Apply(ctx, o, opts...)
}

func (c *counted) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	c.count("delete", o, "")
	return c.Client.Delete(ctx, o, opts...)
}

func (c *counted) DeleteAllOf(ctx context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	c.count("delete", o, "")
	return c.Client.DeleteAllOf(ctx, o, opts...)
}

func (c *counted) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c *counted) SubResource(name string) client.SubResourceClient {
	return &countedPart{SubResourceClient: c.Client.SubResource(name), of: c, name: "/" + name}
}

type countedPart struct {
	client.SubResourceClient
	of   *counted
	name string
}

func (p *countedPart) Create(ctx context.Context, o, part client.Object, opts ...client.SubResourceCreateOption) error {
	p.of.count("create", o, p.name)
	return p.SubResourceClient.Create(ctx, o, part, opts...)
}

func (p *countedPart) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	p.of.count("update", o, p.name)
	return p.SubResourceClient.Update(ctx, o, opts...)
}

func (p *countedPart) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	p.of.count("patch", o, p.name)
	return p.SubResourceClient.Patch(ctx, o, patch, opts...)
}

func (p *countedPart) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	p.of.count("apply", o, p.name)
	return p.SubResourceClient.Apply(ctx, o, opts...)
}
