// SPDX-License-Identifier: Apache-2.0

// The kubelet's part in CSI registration and nothing else of it: its plugin manager and its CSI plugin, with the client
// settings that are its defaults. What csireg is measured against. Prints "ready" once it would register drivers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
	"k8s.io/kubernetes/pkg/volume/csi"
)

func newClient(kubeconfig string, qps float64, burst int) (clientset.Interface, error) {
	how, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	how.QPS, how.Burst = float32(qps), burst
	how.ContentType = runtime.ContentTypeProtobuf
	how.AcceptContentTypes = strings.Join([]string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}, ",")
	return clientset.NewForConfig(how)
}

func run(kubeconfig, node, registry string, qps float64, burst int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	client, err := newClient(kubeconfig, qps, burst)
	if err != nil {
		return err
	}
	var once sync.Once
	h := &host{
		client:   client,
		node:     types.NodeName(node),
		factory:  informers.NewSharedInformerFactory(client, 0),
		recorder: &record.FakeRecorder{},
		ready:    func() { once.Do(func() { fmt.Println("ready") }) },
	}
	for _, plugin := range csi.ProbeVolumePlugins() {
		if err := plugin.Init(h); err != nil {
			return err
		}
	}
	h.factory.Start(ctx.Done())
	manager := pluginmanager.NewPluginManager(registry, h.recorder)
	manager.AddHandler(registerapi.CSIPlugin, csi.PluginHandler)
	manager.Run(ctx, config.NewSourcesReady(func(sets.Set[string]) bool { return true }), ctx.Done())
	return nil
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file for the node's identity")
	node := flag.String("node-name", "", "name of the Node object")
	registry := flag.String("plugins-registry-dir", "", "directory of the registration sockets")
	qps := flag.Float64("kube-api-qps", 50, "requests a second; the default is the kubelet's")
	burst := flag.Int("kube-api-burst", 100, "requests at once; the default is the kubelet's")
	flag.Parse()
	if err := run(*kubeconfig, *node, *registry, *qps, *burst); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
