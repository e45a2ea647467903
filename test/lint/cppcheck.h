/* SPDX-License-Identifier: Apache-2.0 */
/* What cppcheck must know and does not read from system headers. Never compiled. */
#define JSON_HAVE_ATOMIC_BUILTINS       1
#define PROTOBUF_C_VERSION_NUMBER       1004001
#define PROTOBUF_C_MIN_COMPILER_VERSION 1000000
#define PROTOBUF_C__BEGIN_DECLS
#define PROTOBUF_C__END_DECLS
#define json_array_foreach(array, i, value)                                                                            \
    for (i = 0; i < json_array_size(array) && (value = json_array_get(array, i)); i++)
#define json_object_foreach(object, key, value)                                                                        \
    for (key = json_object_iter_key(json_object_iter(object));                                                         \
         key && (value = json_object_iter_value(json_object_key_to_iter(key)));                                        \
         key = json_object_iter_key(json_object_iter_next(object, json_object_key_to_iter(key))))
#define json_object_foreach_safe(object, n, key, value)                                                                \
    for (key = json_object_iter_key(json_object_iter(object)),                                                         \
        n = json_object_iter_next(object, json_object_key_to_iter(key));                                               \
         key && (value = json_object_iter_value(json_object_key_to_iter(key)));                                        \
         key = json_object_iter_key(n), n = json_object_iter_next(object, json_object_key_to_iter(key)))
#define TAILQ_HEAD(name, type)                                                                                         \
    struct name {                                                                                                      \
        struct type *tqh_first, **tqh_last;                                                                            \
    }
#define TAILQ_ENTRY(type)                                                                                              \
    struct {                                                                                                           \
        struct type *tqe_next, **tqe_prev;                                                                             \
    }
#define TAILQ_FOREACH(var, head, field) for (var = (head)->tqh_first; var; var = var->field.tqe_next)
