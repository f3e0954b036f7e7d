// Records which methods of client.storage a suite calls, without changing the client.
import type { Storage } from './storage-shapes.ts'

/** Methods that each file of the suite must call. A method that is neither here nor in `unsupported` needs a test. */
export const requiredMethods = {
  objects: [
    'client.from',
    'file.upload',
    'file.update',
    'file.download',
    'file.info',
    'file.exists',
    'file.move',
    'file.copy',
    'file.remove',
    'file.setHeader',
    'file.throwOnError',
    'download.asStream',
    'download.then',
    'download.catch',
    'download.finally',
  ],
  buckets: [
    'client.createBucket',
    'client.getBucket',
    'client.listBuckets',
    'client.updateBucket',
    'client.emptyBucket',
    'client.deleteBucket',
    'client.setHeader',
    'client.throwOnError',
  ],
  lists: ['file.list', 'file.listV2'],
  signed: [
    'file.createSignedUrl',
    'file.createSignedUrls',
    'file.createSignedUploadUrl',
    'file.uploadToSignedUrl',
    'file.getPublicUrl',
  ],
  transforms: ['file.purgeCache', 'client.purgeBucketCache'],
} as const
export type Theme = keyof typeof requiredMethods

/** Methods that this server does not support. A test checks that they return an error. */
export const unsupported = [
  'client.getBucketLifecycle',
  'client.updateBucketLifecycle',
  'client.deleteBucketLifecycle',
]
/** Nested clients that this server does not support. */
export const unsupportedClients = ['analytics', 'vectors']

/** Internal methods of the client. Most are private in TypeScript but exist on the prototypes. */
const internal = new Set([
  'client.handleOperation',
  'client.listBucketOptionsToQueryString',
  'client.bucketLifecycleUrl',
  'file.handleOperation',
  'file.uploadOrUpdate',
  'file.prepareUploadFormData',
  'file.encodeMetadata',
  'file.toBase64',
  'file.applyTransformOptsToQuery',
  'download.getPromise',
  'download.execute',
])

type Part = 'client' | 'file' | 'download'
const returnedParts: Record<string, Part> = { 'client.from': 'file', 'file.download': 'download' }

export const called = new Set<string>()

/** A proxy that records every call, also on the objects that calls return. */
export function watched<T extends object>(object: T, part: Part = 'client'): T {
  return new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof name !== 'string' || typeof value !== 'function') return value
      return (...given: unknown[]) => {
        const method = `${part}.${name}`
        called.add(method)
        const result = value.apply(target, given)
        // setHeader and throwOnError return the object itself.
        if (result === target) return watched(target, part)
        const next = returnedParts[method]
        return next ? watched(result, next) : result
      }
    },
  })
}

/** Every public method of the client and of the objects it returns, read at run time. */
export function publicMethods(client: Storage): string[] {
  const file = client.from('bucket')
  return [
    ...methodsOf(client, 'client'),
    ...methodsOf(file, 'file'),
    ...methodsOf(file.download('path'), 'download'),
  ].filter(method => !internal.has(method))
}

/** The names of the nested clients. */
export function nestedClients(client: Storage): string[] {
  return prototypesOf(client).flatMap(prototype =>
    Object.entries(Object.getOwnPropertyDescriptors(prototype))
      .filter(([, { get }]) => get !== undefined)
      .map(([name]) => name),
  )
}

function methodsOf(object: object, part: Part): string[] {
  const names = prototypesOf(object).flatMap(prototype =>
    Object.entries(Object.getOwnPropertyDescriptors(prototype))
      .filter(([name, { value }]) => typeof value === 'function' && name !== 'constructor')
      .map(([name]) => name),
  )
  return [...new Set(names)].filter(name => !name.startsWith('_')).map(name => `${part}.${name}`)
}

function prototypesOf(object: object): object[] {
  const prototype = Object.getPrototypeOf(object)
  return prototype === Object.prototype ? [] : [prototype, ...prototypesOf(prototype)]
}
