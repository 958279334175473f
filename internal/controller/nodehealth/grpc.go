package nodehealth

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/internal/model/health"
)

// HealthService is the service name in health checks, the same as in OVN-Kubernetes.
const HealthService = "Service_Egress_IP"

// DNS names (SAN) in the certificates of both sides. They keep agents from accepting each other, or anyone with the
// certificate of an agent, as the controller.
const (
	AgentName      = "sallyport-agent"
	ControllerName = "sallyport-controller"
)

// grpcChecker asks the gRPC health service of a node over one connection.
type grpcChecker struct {
	port int
	tls  *tls.Config

	conn         *grpc.ClientConn
	addressIndex int  // which of the node's addresses the connection uses
	wasServing   bool // the last check was answered
	notAfter     time.Time
}

// checkNode sends one check. A connection that worked before may have ended for a normal reason; the next check
// decides.
func (c *grpcChecker) checkNode(ctx context.Context, addresses []netip.Addr) health.SampleResult {
	if len(addresses) == 0 || !c.ensureConn(addresses) {
		return health.Silent
	}
	var by peer.Peer
	answer, err := grpc_health_v1.NewHealthClient(c.conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: HealthService},
		grpc.WaitForReady(true), grpc.Peer(&by))
	if shown, secure := by.AuthInfo.(credentials.TLSInfo); secure && len(shown.State.PeerCertificates) > 0 {
		c.notAfter = shown.State.PeerCertificates[0].NotAfter
	}
	if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
		c.wasServing = true
		return health.Alive
	}
	bounced := c.wasServing && (err == nil || status.Code(err) == codes.Unavailable)
	c.wasServing = false
	c.closeConn()
	c.addressIndex++
	if bounced {
		return health.Inconclusive
	}
	return health.Silent
}

// ensureConn opens the connection. After a failure it uses the next address of the node.
func (c *grpcChecker) ensureConn(addresses []netip.Addr) bool {
	if c.conn != nil {
		return true
	}
	secrets := insecure.NewCredentials()
	if c.tls != nil {
		secrets = credentials.NewTLS(c.tls)
	}
	target := "passthrough:///" + net.JoinHostPort(addresses[c.addressIndex%len(addresses)].String(),
		strconv.Itoa(c.port))
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(secrets))
	if err != nil {
		return false
	}
	c.conn = conn
	return true
}

func (c *grpcChecker) certificateExpiry() time.Time { return c.notAfter }

func (c *grpcChecker) closeConn() {
	if c.conn != nil {
		_ = c.conn.Close() // nothing in flight matters
		c.conn = nil
	}
}

// Limits for one connection to the health port. The controller sends one small request at a time.
const (
	maxStreams       = 4
	maxRequestBytes  = 256
	maxHeaderBytes   = 4 << 10 // all header fields of a request
	bufferBytes      = 4 << 10 // for reading and for writing
	windowBytes      = 64 << 10
	handshakeTimeout = 2 * time.Second
	idleTimeout      = 30 * time.Second
	maxConnAge       = time.Hour // then both sides present their certificates again
	minPingInterval  = 5 * time.Second
	pingTimeout      = 5 * time.Second
	stopGrace        = 2 * time.Second
)

// Serve answers health checks on a listener until the context ends. Then it answers NOT_SERVING while it shuts down.
func Serve(ctx context.Context, on net.Listener, secrets *tls.Config) error {
	options := []grpc.ServerOption{
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.ReadBufferSize(bufferBytes), grpc.WriteBufferSize(bufferBytes),
		grpc.StaticConnWindowSize(windowBytes), grpc.StaticStreamWindowSize(windowBytes),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPingInterval}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout, MaxConnectionAge: maxConnAge, MaxConnectionAgeGrace: stopGrace,
			Time: idleTimeout, Timeout: pingTimeout,
		}),
	}
	if secrets != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secrets)))
	}
	bounded := &boundedListener{Listener: on}
	server, answers := grpc.NewServer(options...), &healthServer{onAnswered: bounded.markAnswered}
	grpc_health_v1.RegisterHealthServer(server, answers)
	stopped := context.AfterFunc(ctx, func() {
		answers.stopping.Store(true)
		cut := time.AfterFunc(stopGrace, server.Stop) // do not wait for clients with open requests
		defer cut.Stop()
		server.GracefulStop()
	})
	defer stopped()
	return server.Serve(bounded)
}

// healthServer implements Check only. Watch would hold a stream, and memory, for as long as the client likes; the
// controller polls instead.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	onAnswered func(by net.Addr)
	stopping   atomic.Bool
}

// Check reports whether the node is serving.
func (a *healthServer) Check(ctx context.Context,
	q *grpc_health_v1.HealthCheckRequest,
) (*grpc_health_v1.HealthCheckResponse, error) {
	if name := q.GetService(); name != "" && name != HealthService {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	if by, known := peer.FromContext(ctx); known {
		a.onAnswered(by.Addr)
	}
	if a.stopping.Load() {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}
