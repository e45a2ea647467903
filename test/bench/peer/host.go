// SPDX-License-Identifier: Apache-2.0

package main

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/volume"
)

// host is as much of a kubelet as the CSI plugin asks for while drivers register and go. The embedded interfaces are
// nil: a method that is missing here ends the program, and the measurement with it.
type host struct {
	volume.VolumeHost
	volume.KubeletVolumeHost
	client   clientset.Interface
	node     types.NodeName
	factory  informers.SharedInformerFactory
	recorder record.EventRecorder
	ready    func()
}

type tokenGetter = func(namespace, name string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)

func (h *host) GetKubeClient() clientset.Interface                  { return h.client }
func (h *host) GetNodeName() types.NodeName                         { return h.node }
func (h *host) GetEventRecorder() record.EventRecorder              { return h.recorder }
func (h *host) GetInformerFactory() informers.SharedInformerFactory { return h.factory }

func (h *host) GetServiceAccountTokenFunc() tokenGetter {
	return func(_, _ string, tr *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		return tr, nil
	}
}

func (h *host) CSIDriverLister() storagelisters.CSIDriverLister {
	return h.factory.Storage().V1().CSIDrivers().Lister()
}

func (h *host) CSIDriversSynced() cache.InformerSynced {
	return h.factory.Storage().V1().CSIDrivers().Informer().HasSynced
}

// SetKubeletError is told that the CSINode is not ready, and later nil.
func (h *host) SetKubeletError(err error) {
	if err == nil {
		h.ready()
	}
}
