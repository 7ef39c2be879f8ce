// Command control-plane is a Kubernetes control plane in one binary, for the tests:
//
//	control-plane etcd DATA_DIRECTORY CLIENT_URL PEER_URL
//	control-plane kube-apiserver|kube-controller-manager|kube-scheduler ARGUMENTS
//
// Every part is the one that Kubernetes ships, with its own flags. etcd keeps nothing over a power cut.
package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          func() *cobra.Command { return apiserver.NewAPIServerCommand() },
	"kube-controller-manager": func() *cobra.Command { return controllers.NewControllerManagerCommand() },
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		fail("which part? etcd, kube-apiserver, kube-controller-manager or kube-scheduler")
	}
	part := os.Args[1]
	os.Args = os.Args[1:] // a part reads its own flags from here
	switch server, known := servers[part]; {
	case known:
		os.Exit(cli.Run(server()))
	case part == "etcd":
		if err := etcd(os.Args[1:]); err != nil {
			fail("etcd: " + err.Error())
		}
	default:
		fail("no such part: " + part)
	}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}

// etcd serves until it is told to end.
func etcd(args []string) error {
	if len(args) != 3 {
		return errors.New("want DATA_DIRECTORY CLIENT_URL PEER_URL")
	}
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = args[0], "warn", true
	client, err := url.Parse(args[1])
	if err != nil {
		return err
	}
	peer, err := url.Parse(args[2])
	if err != nil {
		return err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-told:
		return nil
	case err := <-server.Err():
		return err
	}
}
