// Command kube-apiserver is Kubernetes' own API server, and etcd when the first argument is "etcd": the plain servers
// that the end-to-end tests put behind one proxy.
package main

import (
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// serveEtcd <folder> <client URL> <peer URL> keeps what one API server stores until it is killed.
func serveEtcd(folder, client, peer string) error {
	config := embed.NewConfig()
	config.Dir = folder
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	at, err := url.Parse(client)
	if err != nil {
		return err
	}
	peers, err := url.Parse(peer)
	if err != nil {
		return err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*at}, []url.URL{*at}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peers}, []url.URL{*peers}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.WatchProgressNotifyInterval = 5 * time.Second
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	return <-server.Err()
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == "etcd" {
		if err := serveEtcd(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
