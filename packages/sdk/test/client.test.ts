// Compatibility with supabase-js, and the errors of calls that get no valid answer.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { SupabaseClient } from '@supabase/supabase-js'
import { createClient, PlinthClient, PlinthError, projectUrl } from '../src/client.ts'
import { granted, refused, type Stage, setStage } from './stage.ts'

/** The types that the platform generates for the tables below. */
interface Database {
  public: {
    Tables: {
      notes: {
        Row: { id: number; body: string | null }
        Insert: { id: number; body?: string | null }
        Update: { id?: number; body?: string | null }
        Relationships: []
      }
    }
    Views: Record<never, never>
    Functions: { shout: { Args: { word: string }; Returns: string } }
  }
  shop: {
    Tables: {
      items: { Row: { sku: string }; Insert: { sku: string }; Update: { sku?: string }; Relationships: [] }
    }
    Views: Record<never, never>
    Functions: Record<never, never>
  }
}

const notes = `
create table public.notes (id int primary key, body text);
create policy read_all on public.notes for select using (true);
create function public.shout(word text) returns text language sql as $$ select upper(word) $$;
create schema shop;
grant usage on schema shop to service_role;
create table shop.items (sku text primary key);
grant all on shop.items to service_role;
`
const withoutSession = { auth: { persistSession: false, autoRefreshToken: false } }

let stage: Stage
let url: string
before(async () => {
  stage = await setStage()
  url = projectUrl(stage.platform.url, stage.project.id)
  await stage.platform.projects.update({
    params: { id: stage.project.id },
    body: { settings: { exposed_schemas: ['public', 'shop'] } },
  })
  const ref = await stage.platform.refOf(stage.project.id)
  await stage.platform.app.databases.asOwner({ ref }, session => session.script(notes))
  const ready = () => stage.service.schema('shop').from('items').select().limit(0)
  for (const end = Date.now() + 60_000; (await ready()).error && Date.now() < end; ) await sleep(20)
})
after(() => stage.stop())

describe('compatibility with supabase-js', () => {
  test('one client reads and writes rows, calls functions and uses the cache, with types', async () => {
    const client = createClient<Database>(url, stage.project.service_role_key, withoutSession)
    assert.ok(client instanceof SupabaseClient && client instanceof PlinthClient)
    const written = await client.from('notes').insert({ id: 1, body: 'hello' }).select().single()
    const body: string | null | undefined = written.data?.body
    assert.deepEqual([written.error, body], [null, 'hello'])
    const read = await client.from('notes').select('id').eq('id', 1)
    const ids: { id: number }[] | null = read.data
    assert.deepEqual(ids, [{ id: 1 }])
    const shouted = await client.rpc('shout', { word: 'hey' })
    const word: string | null = shouted.data
    assert.equal(word, 'HEY')
    const count: number | bigint | null = (await client.cache.incr('notes')).data
    assert.equal(count, 1)

    // @ts-expect-error: there is no such table
    assert.ok((await client.from('nothing').select()).error)
    // @ts-expect-error: a note has no such column
    assert.ok((await client.from('notes').insert({ id: 2, colour: 'red' })).error)
    // @ts-expect-error: values are strings
    assert.ok((await client.cache.set('n', 5)).error)
  })

  test('the schema is selected as in supabase-js, by option or by call', async () => {
    const shop = createClient<Database, 'shop'>(url, stage.project.service_role_key, {
      ...withoutSession,
      db: { schema: 'shop' },
    })
    assert.deepEqual((await shop.from('items').insert({ sku: 'lamp' }).select()).data, [{ sku: 'lamp' }])
    const client = createClient<Database>(url, stage.project.service_role_key, withoutSession)
    const items: { sku: string }[] | null = (await client.schema('shop').from('items').select()).data
    assert.deepEqual(items, [{ sku: 'lamp' }])
  })

  test('it is assignable to SupabaseClient', async () => {
    const count = async (client: SupabaseClient<Database>) =>
      (await client.from('notes').select('*', { count: 'exact', head: true })).error
    const untyped = async (client: SupabaseClient) => (await client.from('notes').select()).error
    assert.equal(await count(createClient<Database>(url, stage.project.anon_key, withoutSession)), null)
    assert.equal(await untyped(createClient(url, stage.project.anon_key, withoutSession)), null)
    const versioned = createClient<Database, { PostgrestVersion: '13' }>(
      url,
      stage.project.anon_key,
      withoutSession,
    )
    assert.equal((await versioned.from('notes').select('id')).error, null)
  })

  test('after a user signs in, cache, queues and cron still use the key of the client', async () => {
    const client = stage.connect(stage.project.service_role_key)
    const email = 'ada@example.com'
    const signedUp = await client.auth.signUp({ email, password: 'correct horse battery' })
    assert.equal(signedUp.error, null)
    assert.equal((await client.auth.getUser()).data.user?.email, email)
    // Rows are now written as this user, who lacks the permission.
    assert.equal((await client.from('notes').insert({ id: 99 })).error?.code, '42501')
    assert.equal(granted(await client.cache.set('who', 'the server')), true)
    assert.ok(granted(await client.queues.list()))
    assert.ok(granted(await client.cron.list()))
    assert.equal((await client.auth.signOut()).error, null)
  })
})

describe('a request', () => {
  test('uses global.fetch and global.headers, and the key of the client', async () => {
    const seen: { url: string; headers: Headers; method: string | undefined }[] = []
    const client = stage.connect(stage.project.service_role_key, {
      global: {
        headers: { 'X-Tenant': 'acme', Authorization: 'Bearer other', APIKEY: 'other' },
        fetch: (input, init) => {
          seen.push({ url: String(input), headers: new Headers(init?.headers), method: init?.method })
          return fetch(input, init)
        },
      },
    })
    granted(await client.cache.get('a b/ü'))
    granted(await client.queues.list())
    granted(await client.cron.list())
    assert.deepEqual(
      seen.map(({ url: address }) => address.slice(url.length)),
      ['/cache/v1/get/a%20b%2F%C3%BC', '/queue/v1/queues', '/cron/v1/jobs'],
    )
    for (const { headers } of seen)
      assert.deepEqual(
        ['x-tenant', 'apikey', 'authorization'].map(name => headers.get(name)),
        ['acme', stage.project.service_role_key, `Bearer ${stage.project.service_role_key}`],
      )
  })

  test('accepts URLs with or without a slash at the end', async () => {
    for (const address of [`${url}/`, ` ${url} `, projectUrl(`${stage.platform.url}/`, stage.project.id)]) {
      const client = createClient(address, stage.project.service_role_key, withoutSession)
      assert.equal(granted(await client.cache.get('absent')), null)
    }
  })

  test('with an unknown key gets an error with all fields', async () => {
    const error = refused(await stage.connect('unknown').cache.get('x'), 401, 'unauthorized')
    assert.equal(error.name, 'PlinthError')
    assert.match(error.requestId ?? '', /^[\w-]{14,}$/)
    assert.deepEqual(JSON.parse(JSON.stringify(error)), {
      name: 'PlinthError',
      message: error.message,
      code: 'unauthorized',
      status: 401,
      hint: error.hint,
      details: error.details,
    })
  })
})

test('createClient throws without a valid URL or key, as in supabase-js', () => {
  assert.throws(() => createClient('', 'key'), /supabaseUrl is required/)
  assert.throws(() => createClient('nowhere', 'key'), /Invalid supabaseUrl/)
  assert.throws(() => createClient(url, ''), /supabaseKey is required/)
})

test('without a WebSocket, as on Node 20, only realtime fails', async () => {
  const { WebSocket } = globalThis
  Reflect.deleteProperty(globalThis, 'WebSocket')
  try {
    const client = createClient(url, stage.project.service_role_key, withoutSession)
    assert.equal(granted(await client.cache.get('absent')), null)
    assert.equal((await client.from('notes').select()).error, null)
    assert.throws(() => client.channel('room').subscribe(), /no WebSocket.*Node 22/)
    const realtime = { transport: WebSocket as any }
    const given = createClient(url, stage.project.service_role_key, { ...withoutSession, realtime })
    assert.equal(given.realtime.transport, WebSocket)
  } finally {
    Object.defineProperty(globalThis, 'WebSocket', { value: WebSocket, configurable: true, writable: true })
  }
})

describe('without a valid answer', () => {
  const servers: Server[] = []
  after(() => {
    for (const server of servers) {
      server.closeAllConnections()
      server.close()
    }
  })
  /** A client of a server that is not the platform. */
  async function connectTo(answer: RequestListener) {
    const server = createServer(answer).listen(0, '127.0.0.1')
    servers.push(server)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const address = projectUrl(`http://127.0.0.1:${port}`, stage.project.id)
    return { server, client: createClient(address, 'key', withoutSession) }
  }

  test('a refused connection is a network error', async () => {
    const { server, client } = await connectTo(() => {})
    server.close()
    await once(server, 'close')
    const error = refused(await client.cache.get('x'), 0, 'network_error')
    assert.match(error.message, /^No answer from http:\/\/127\.0\.0\.1:\d+\/v1\/.*ECONNREFUSED/)
    assert.equal(error.details, 'ECONNREFUSED')
    assert.equal(error.requestId, null)
    assert.ok(error.cause instanceof Error)
    refused(await client.queues.send('q', 'x'), 0, 'network_error')
    refused(await client.cron.list(), 0, 'network_error')
    await assert.rejects(client.cache.keys().next(), PlinthError)
  })

  test('a fetch that rejects with any value is a network error', async () => {
    const thrown = [new Error(''), 'a word', undefined, null, { code: 5 }]
    for (const value of thrown) {
      const client = createClient(url, 'key', {
        ...withoutSession,
        global: { fetch: () => Promise.reject(value) },
      })
      refused(await client.cache.get('x'), 0, 'network_error')
    }
  })

  test('an incomplete answer is a network error', async () => {
    const { client } = await connectTo((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' })
      response.write('{"value":', () => response.destroy())
    })
    refused(await client.cache.get('x'), 0, 'network_error')
  })

  test('a call can be aborted while it waits for the answer', async () => {
    const controller = new AbortController()
    const { client } = await connectTo(() => controller.abort(new Error('no longer wanted')))
    const error = refused(
      await client.queues.read('q', { vt: 1, signal: controller.signal }),
      0,
      'request_aborted',
    )
    assert.match(error.message, /no longer wanted/)
  })

  test('a call can be aborted while it receives the answer', async () => {
    const controller = new AbortController()
    const { client } = await connectTo((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write('{"value":', () => controller.abort())
    })
    refused(await client.cache.get('x', { signal: controller.signal }), 0, 'request_aborted')
  })

  test('a timeout signal aborts a call', async () => {
    const { client } = await connectTo(() => {})
    const error = refused(await client.cron.list({ signal: AbortSignal.timeout(1) }), 0, 'request_aborted')
    assert.match(error.message, /timeout/)
  })

  test('an answer that does not come from the platform is unexpected_answer', async () => {
    const answers: [number, string][] = [
      [502, '<html>Bad Gateway</html>'],
      [404, ''],
      [500, 'null'],
      [500, '{"message": 5}'],
      [200, '<html>Welcome</html>'],
    ]
    for (const [status, text] of answers) {
      const { client } = await connectTo((_request, response) => response.writeHead(status).end(text))
      const error = refused(await client.cache.get('x'), status, 'unexpected_answer')
      assert.equal(error.details, text)
      assert.match(error.hint, /proxy/)
      refused(await client.cache.incr('x'), status, 'unexpected_answer')
    }
    for (const empty of ['', 'null']) {
      const { client } = await connectTo((_request, response) => response.writeHead(200).end(empty))
      refused(await client.cache.get('x'), 200, 'unexpected_answer')
      refused(await client.cache.get('.'), 200, 'unexpected_answer')
      refused(await client.queues.ack('q', [1]), 200, 'unexpected_answer')
    }
  })
})
