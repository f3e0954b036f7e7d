// Watches which methods of client.storage a suite calls, from outside: the client itself stays as it was published.
import type { Storage } from './storage-shapes.ts'

/** What each file of the suite calls at least; a method that is in none of them and not left open needs a test. */
export const walked = {
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
export type Theme = keyof typeof walked

/** Lifecycles of buckets are none of the contract: they are refused in words, and that is tested. */
export const leftOpen = [
  'client.getBucketLifecycle',
  'client.updateBucketLifecycle',
  'client.deleteBucketLifecycle',
]
/** So are whole clients of their own, for tables and vectors. */
export const otherClients = ['analytics', 'vectors']

/** Methods that only the client itself calls; TypeScript hides most of them, the prototypes do not. */
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
const handedOut: Record<string, Part> = { 'client.from': 'file', 'file.download': 'download' }

export const called = new Set<string>()

/** The same object, and what it hands out, with every call noted. */
export function watched<T extends object>(object: T, part: Part = 'client'): T {
  return new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof name !== 'string' || typeof value !== 'function') return value
      return (...given: unknown[]) => {
        const method = `${part}.${name}`
        called.add(method)
        const result = value.apply(target, given)
        // setHeader and throwOnError answer the object itself.
        if (result === target) return watched(target, part)
        const next = handedOut[method]
        return next ? watched(result, next) : result
      }
    },
  })
}

/** Every public method of the client and of what it hands out, as they are at run time. */
export function offered(client: Storage): string[] {
  const file = client.from('bucket')
  return [
    ...methodsOf(client, 'client'),
    ...methodsOf(file, 'file'),
    ...methodsOf(file.download('path'), 'download'),
  ].filter(method => !internal.has(method))
}

/** The clients of their own that this one holds. */
export function held(client: Storage): string[] {
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
