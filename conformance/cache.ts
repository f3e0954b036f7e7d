// A client for the cache of a project.

import { type CreatedProject, createProject, unlimited } from './people.ts'
import { bodyOf, type ServiceApi, serviceOf } from './service.ts'
import type { Target } from './target.ts'
import type { Reply } from './wire.ts'

export interface CacheApi extends ServiceApi {
  /** False if the condition nx or xx was not met. */
  set(key: string, value: string, options?: Record<string, unknown>): Promise<boolean>
  /** Null if the key is absent. */
  value(key: string): Promise<string | null>
  ttl(key: string): Promise<number>
  exists(key: string): Promise<boolean>
  expire(key: string, seconds: number): Promise<boolean>
  del(...keys: string[]): Promise<number>
  mget(...keys: string[]): Promise<(string | null)[]>
  mset(pairs: Record<string, string>): Promise<boolean>
  page(query?: Record<string, string>): Promise<{ cursor: string; keys: string[] }>
  /** All keys of a scan, with repetitions. */
  scan(query?: Record<string, string>): Promise<string[]>
}

export const inPath = encodeURIComponent

/** Valid keys that are special in URLs, patterns, JavaScript, SQL or Redis. */
export const oddKeys = [
  ':',
  'a:b::c:',
  '*',
  '?',
  '[',
  ']',
  '[a-z]',
  '[^a]',
  '\\',
  '\\\\',
  'back\\slash',
  '\\*',
  '\0',
  'a\0b',
  '😀',
  '👩‍👩‍👧‍👦',
  'Grüße',
  'é',
  'e\u0301',
  '日本語',
  '\ufeffbom',
  '\uffff',
  '\u{10ffff}',
  '\u2028',
  '\u200b',
  ' ',
  ' padded ',
  '\t\r\n',
  '\x7f\x01',
  'a/b',
  '/',
  '//a//',
  '%',
  '%2F',
  '%00',
  '+',
  'a b+c',
  '#',
  '&=',
  ';',
  '"',
  "'",
  '{tag}',
  '$1',
  '{"key":1}',
  '__proto__',
  'constructor',
  'null',
  '0',
  '-1',
  'GET x\r\nSET y 1',
]

export function cacheOf(target: Target, project: CreatedProject): CacheApi {
  const api = serviceOf(target, project, 'cache')
  const post = async (path: string, body: unknown) => bodyOf(await api.post(path, body))
  const read = async (path: string) => bodyOf(await api.get(path))
  const page = (query: Record<string, string> = {}) => read(`scan?${new URLSearchParams(query)}`)
  return {
    ...api,
    set: async (key, value, options = {}) => (await post('set', { key, value, ...options })).ok,
    value: async key => valueOrNull(await api.get(`get/${inPath(key)}`)),
    ttl: async key => (await read(`ttl/${inPath(key)}`)).ttl,
    exists: async key => (await read(`exists/${inPath(key)}`)).exists,
    expire: async (key, seconds) => (await post('expire', { key, seconds })).applied,
    del: async (...keys) => (await post('del', { keys })).deleted,
    mget: async (...keys) => (await post('mget', { keys })).values,
    mset: async pairs => (await post('mset', { pairs })).ok,
    page,
    async scan(query = {}) {
      const keys: string[] = []
      let cursor = '0'
      // More pages than any correct scan needs, so that a cursor that never ends fails the test.
      for (let pages = 0; pages < 20_000; pages++) {
        const next = await page({ ...query, cursor })
        keys.push(...next.keys)
        cursor = next.cursor
        if (cursor === '0') return keys
      }
      throw new Error('the cursor of the scan does not end')
    },
  }
}

const valueOrNull = (reply: Reply): string | null => (reply.status === 404 ? null : bodyOf(reply).value)

export const cacheProject = async (target: Target): Promise<CacheApi> =>
  cacheOf(target, await createProject(target, { quotas: unlimited }))
