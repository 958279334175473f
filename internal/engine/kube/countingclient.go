package kube

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCountingClient returns a client that reports every write that it sends: its verb (create, update, patch, apply,
// delete) and the kind of the object. The kind of a status is, for example, "EIp/status".
func NewCountingClient(c client.Client, wrote func(verb, kind string)) client.Client {
	return &countingClient{Client: c, onWrite: wrote}
}

type countingClient struct {
	client.Client
	onWrite func(verb, kind string)
}

func (c *countingClient) countWrite(verb string, o any, subresource string) {
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
	c.onWrite(verb, kind+subresource)
}

func (c *countingClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	c.countWrite("create", o, "")
	return c.Client.Create(ctx, o, opts...)
}

func (c *countingClient) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	c.countWrite("update", o, "")
	return c.Client.Update(ctx, o, opts...)
}

func (c *countingClient) Patch(ctx context.Context, o client.Object, patch client.Patch,
	opts ...client.PatchOption,
) error {
	c.countWrite("patch", o, "")
	return c.Client.Patch(ctx, o, patch, opts...)
}

func (c *countingClient) Apply(ctx context.Context, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	c.countWrite("apply", o, "")
	return c.Client.Apply(ctx, o, opts...)
}

func (c *countingClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	c.countWrite("delete", o, "")
	return c.Client.Delete(ctx, o, opts...)
}

func (c *countingClient) DeleteAllOf(ctx context.Context, o client.Object, opts ...client.DeleteAllOfOption) error {
	c.countWrite("delete", o, "")
	return c.Client.DeleteAllOf(ctx, o, opts...)
}

func (c *countingClient) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c *countingClient) SubResource(name string) client.SubResourceClient {
	return &countingSubResource{SubResourceClient: c.Client.SubResource(name), parent: c, suffix: "/" + name}
}

type countingSubResource struct {
	client.SubResourceClient
	parent *countingClient
	suffix string
}

func (p *countingSubResource) Create(ctx context.Context, o, part client.Object,
	opts ...client.SubResourceCreateOption,
) error {
	p.parent.countWrite("create", o, p.suffix)
	return p.SubResourceClient.Create(ctx, o, part, opts...)
}

func (p *countingSubResource) Update(ctx context.Context, o client.Object,
	opts ...client.SubResourceUpdateOption,
) error {
	p.parent.countWrite("update", o, p.suffix)
	return p.SubResourceClient.Update(ctx, o, opts...)
}

func (p *countingSubResource) Patch(ctx context.Context, o client.Object, patch client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	p.parent.countWrite("patch", o, p.suffix)
	return p.SubResourceClient.Patch(ctx, o, patch, opts...)
}

func (p *countingSubResource) Apply(ctx context.Context, o runtime.ApplyConfiguration,
	opts ...client.SubResourceApplyOption,
) error {
	p.parent.countWrite("apply", o, p.suffix)
	return p.SubResourceClient.Apply(ctx, o, opts...)
}
