// Issue 17: the log of a function.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type FunctionsApi, functionsProject, saying } from '../functions.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

let it: Target
let own: FunctionsApi
before(async () => {
  it = await target()
  own = await functionsProject(it)
})
after(() => it.stop())

test('the log has what a function prints, with level, version and request, and the start and end of each call', async () => {
  await own.deploy(
    'printing',
    `
    Deno.serve(() => {
      console.log('a text', { a: [1, 2] }, 3)
      console.debug('debugging'); console.info('informing'); console.warn('warning'); console.error('failing')
      return new Response('printed', { status: 201 })
    })`,
  )
  const reply = await own.call('printing')
  const lines = await until('the end of the call is logged', async () => {
    const found = await own.logs('printing')
    return found.some(({ event }) => event === 'end') && found
  })
  assert.deepEqual(
    lines.map(({ event, level, message }) => [event, level, message]),
    [
      ['start', 'info', 'POST'],
      ['output', 'log', 'a text { a: [ 1, 2 ] } 3'],
      ['output', 'debug', 'debugging'],
      ['output', 'info', 'informing'],
      ['output', 'warn', 'warning'],
      ['output', 'error', 'failing'],
      ['end', 'info', 'POST 201'],
    ],
  )
  for (const line of lines) {
    assert.equal(line.request_id, reply.headers.get('x-request-id'))
    assert.equal(line.version, 1)
    assert.ok(Date.parse(line.timestamp) > 0)
  }
  const end = lines.at(-1)
  assert.equal(end.status, 201)
  assert.equal(end.is_cold, true)
  assert.ok(end.duration_ms > 0)
  await own.call('printing')
  await until('a warm call is logged', async () =>
    (await own.logs('printing')).some(({ is_cold }) => is_cold === false),
  )
})

test('an uncaught error is logged with its position, during a call and after it', async () => {
  await own.deploy(
    'throwing',
    `
    function inner(what: string) {
      throw new Error(what)
    }
    Deno.serve(req => {
      setTimeout(() => inner('in a timer'), 10)
      Promise.reject(new TypeError('in a promise'))
      return inner('in the call')
    })`,
  )
  const reply = await own.call('throwing')
  assert.equal(reply.status, 500)
  assert.equal(reply.body.code, 'WORKER_ERROR')
  assert.doesNotMatch(reply.text, /in the call/)
  for (const [pattern, position] of [
    [/Error: in the call/, /index\.ts:3:13/],
    [/Error: in a timer/, /index\.ts:3:13/],
    [/TypeError: in a promise/, /index\.ts:7:/],
  ] as const) {
    const { message, level } = await own.untilLogged('throwing', pattern)
    assert.match(message, position)
    assert.doesNotMatch(message, /file:|plinth|ext:/)
    assert.equal(level, 'error')
  }
  assert.equal((await own.call('throwing')).status, 500)
})

test('a function that cannot be loaded is 503, and the log says why', async () => {
  await own.deploy('broken', `throw new Error('while loading')`)
  const reply = await own.call('broken')
  assert.equal(reply.status, 503)
  assert.equal(reply.body.code, 'BOOT_ERROR')
  assert.equal(reply.headers.get('x-relay-error'), 'true')
  assert.match((await own.untilLogged('broken', /while loading/)).message, /index\.ts:1:7/)
  await own.deploy('none', 'export const nothing = 1')
  assert.equal((await own.call('none')).status, 503)
  assert.match((await own.untilLogged('none', /no handler/)).message, /Deno\.serve/)
})

test('the values of secrets are masked, and neither bodies nor headers are logged', async () => {
  await it.manage('POST', `/projects/${own.project.id}/secrets`, {
    name: 'HIDDEN',
    value: 'very-hidden-value',
  })
  await own.deploy(
    'leaking',
    `
    Deno.serve(async req => {
      console.log('printed', Deno.env.get('HIDDEN'), Deno.env.get('SUPABASE_SERVICE_ROLE_KEY'))
      await Deno.stdout.write(new TextEncoder().encode('raw ' + Deno.env.get('HIDDEN') + '\\n'))
      throw new Error(Deno.env.get('HIDDEN'))
    })`,
  )
  await own.call('leaking', { body: { note: 'in the body' }, headers: { 'x-note': 'in a header' } })
  await own.untilLogged('leaking', /^raw \*\*\*$/)
  const text = JSON.stringify(
    await until('the end', async () => {
      const lines = await own.logs('leaking')
      return lines.some(({ event }) => event === 'end') && lines
    }),
  )
  assert.match(text, /printed \*\*\* \*\*\*/)
  assert.match(text, /Error: \*\*\*/)
  assert.doesNotMatch(text, /very-hidden-value|in the body|in a header/)
  assert.ok(!text.includes(own.project.service_role_key))
})

test('the log is read by pages, levels and requests', async () => {
  await own.deploy(
    'counting',
    `let calls = 0; Deno.serve(() => { console.warn('call ' + ++calls); return new Response('x') })`,
  )
  for (let call = 0; call < 5; call++) await own.call('counting')
  await own.untilLogged('counting', /call 5/)
  const warnings = await own.logs('counting', '?level=warn')
  assert.deepEqual(
    warnings.map(({ message }) => message),
    [1, 2, 3, 4, 5].map(number => `call ${number}`),
  )
  const latest = await own.logs('counting', '?level=warn&limit=2')
  assert.deepEqual(
    latest.map(({ message }) => message),
    ['call 4', 'call 5'],
  )
  const following = await own.logs('counting', `?level=warn&limit=2&after=${warnings[1].id}`)
  assert.deepEqual(
    following.map(({ message }) => message),
    ['call 3', 'call 4'],
  )
  const ofOne = await own.logs('counting', `?request_id=${warnings[2].request_id}&level=warn`)
  assert.deepEqual(
    ofOne.map(({ message }) => message),
    ['call 3'],
  )
})

test('the log of a function is that of its project and its name', async () => {
  const other = await functionsProject(it)
  await other.deploy('counting', saying('other'))
  await other.call('counting')
  await until('its own line', async () => (await other.logs('counting')).length > 0)
  assert.ok(!(await other.logs('counting')).some(({ message }) => /call \d/.test(message)))
})

test('a function that prints without end loses lines, answers, and the log says so', async () => {
  await own.deploy(
    'noisy',
    `
    Deno.serve(() => { for (let line = 0; line < 6000; line++) console.log('line ' + line); return new Response('done') })`,
  )
  assert.equal((await own.call('noisy')).text, 'done')
  await own.untilLogged('noisy', /lines were dropped/)
})

test('lines that Postgres could not store are changed, and delay no line of another project', async () => {
  const other = await functionsProject(it)
  await own.deploy(
    'unusual',
    `
    Deno.serve(() => {
      console.log('zero \\0 byte')
      console.log('half \\ud83d character')
      console.log('x'.repeat(7999) + '😀')
      const line = JSON.stringify({ type: 'log', level: 'log', name: 'n'.repeat(9000), message: 'named' })
      Deno.stdout.writeSync(new TextEncoder().encode(line + '\\n'))
      console.log('after these')
      return new Response('printed')
    })`,
  )
  await other.deploy('usual', `Deno.serve(() => { console.log('a usual line'); return new Response() })`)
  await own.call('unusual')
  await other.call('usual')
  await other.untilLogged('usual', /a usual line/)
  await own.untilLogged('unusual', /after these/)
  await own.untilLogged('unusual', /zero \ufffd byte/)
  await own.untilLogged('unusual', /half \ufffd character/)
})
