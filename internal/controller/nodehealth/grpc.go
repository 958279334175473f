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

// HealthService is what a node says of itself that it serves: OVN-Kubernetes' word.
const HealthService = "Service_Egress_IP"

// The names (DNS SAN) that the certificates of both sides have. Agents do not take one another for the controller, and
// whoever has the certificate of an agent is not the controller.
const (
	AgentName      = "sallyport-agent"
	ControllerName = "sallyport-controller"
)

// grpcChecker is a session in which a node says that it serves.
type grpcChecker struct {
	port int
	tls  *tls.Config

	conn         *grpc.ClientConn
	addressIndex int  // which of the node's addresses it is with
	wasServing   bool // the last question was answered
	notAfter     time.Time
}

// checkNode asks once. A session that was there and is not any more may have ended for a normal reason: the next
// question tells.
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

// ensureConn makes the session, with the next of the node's addresses after one that did not answer.
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
		_ = c.conn.Close() // nothing is in it that matters
		c.conn = nil
	}
}

// What one connection to the health port may cost. The controller asks one question at a time, which has a name of some
// letters.
const (
	maxStreams       = 4
	maxRequestBytes  = 256     // bytes of a request
	maxHeaderBytes   = 4 << 10 // bytes of all header fields of a request
	bufferBytes      = 4 << 10 // bytes, for reading and for writing
	windowBytes      = 64 << 10
	handshakeTimeout = 2 * time.Second
	idleTimeout      = 30 * time.Second
	maxConnAge       = time.Hour // then the certificates are shown anew
	minPingInterval  = 5 * time.Second
	pingTimeout      = 5 * time.Second
	stopGrace        = 2 * time.Second
)

// Serve answers for a node on a listener until the context ends: first that it does not serve any more, and then not at
// all.
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
		cut := time.AfterFunc(stopGrace, server.Stop) // who does not end his question is not waited for
		defer cut.Stop()
		server.GracefulStop()
	})
	defer stopped()
	return server.Serve(bounded)
}

// healthServer is the one question that a node answers. It has no Watch, which would hold a stream, and memory, for as
// long as the client likes; the controller asks again and again instead.
type healthServer struct {
	grpc_health_v1.UnimplementedHealthServer
	onAnswered func(by net.Addr)
	stopping   atomic.Bool
}

// Check says whether the node serves.
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
