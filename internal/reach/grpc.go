package reach

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/internal/health"
)

// Service is what a node says of itself that it serves: OVN-Kubernetes' word.
const Service = "Service_Egress_IP"

// conversation is a session in which a node says that it serves.
type conversation struct {
	port int
	tls  *tls.Config

	conn    *grpc.ClientConn
	address int  // which of the node's addresses it is with
	held    bool // the last question was answered
}

// ask asks once. A session that was there and is not any more may have ended for a normal reason: the next question tells.
func (c *conversation) ask(ctx context.Context, addresses []netip.Addr) health.Sign {
	if len(addresses) == 0 || !c.open(addresses) {
		return health.Silent
	}
	answer, err := grpc_health_v1.NewHealthClient(c.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: Service}, grpc.WaitForReady(true))
	if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
		c.held = true
		return health.Alive
	}
	bounced := c.held && (err == nil || status.Code(err) == codes.Unavailable)
	c.held = false
	c.end()
	c.address++
	if bounced {
		return health.Bounced
	}
	return health.Silent
}

// open makes the session, with the next of the node's addresses after one that did not answer.
func (c *conversation) open(addresses []netip.Addr) bool {
	if c.conn != nil {
		return true
	}
	secrets := insecure.NewCredentials()
	if c.tls != nil {
		secrets = credentials.NewTLS(c.tls)
	}
	target := "passthrough:///" + net.JoinHostPort(addresses[c.address%len(addresses)].String(), strconv.Itoa(c.port))
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(secrets))
	if err != nil {
		return false
	}
	c.conn = conn
	return true
}

func (c *conversation) end() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing is in it that matters
		c.conn = nil
	}
}

// Serve answers for a node on a listener until the context ends: first that it does not serve any more, and then not at all.
func Serve(ctx context.Context, on net.Listener, secrets *tls.Config) error {
	var options []grpc.ServerOption
	if secrets != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secrets)))
	}
	server, answers := grpc.NewServer(options...), grpchealth.NewServer()
	answers.SetServingStatus(Service, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, answers)
	stopped := context.AfterFunc(ctx, func() {
		answers.Shutdown()
		server.GracefulStop()
	})
	defer stopped()
	return server.Serve(on)
}
