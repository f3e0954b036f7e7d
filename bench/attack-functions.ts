// The cases of attacks.ts for edge functions: deployments just below their limits, and answers that are expensive to pass on.
import type { Attacked, Case } from './attack-cases.ts'
import { type HttpRequest, send } from './attack-send.ts'

const mebibyte = 1024 * 1024
/** The limits of docs/limits.md. */
const max = { bytes: 10 * mebibyte, files: 1000, mapEntries: 1000, map: 256 * 1024 - 10 }
const hello = `Deno.serve(() => new Response('hello'))`
const fill = (piece: string, bytes: number) => piece.repeat(Math.floor(bytes / piece.length))
const entries = (count: number, name: (n: number) => string, value: (n: number) => unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [name(n), value(n)]))
const pad = (bytes: number) => `/* ${'x'.repeat(bytes)} */\n`

/** Bodies of a deployment. The control is a comment of the same size. */
const deployments: Record<string, () => object> = {
  'files of one byte': () => ({
    files: {
      'index.ts': hello,
      ...entries(
        max.files - 1,
        n => `lib/${n}.txt`,
        () => 'x',
      ),
    },
  }),
  'files of ten kilobytes': () => ({
    files: {
      'index.ts': hello,
      ...entries(
        max.files - 1,
        n => `lib/${n}.txt`,
        () => 'x'.repeat(10_000),
      ),
    },
  }),
  'modules that import each other': () => ({
    files: {
      'index.ts': `import './m0.ts'\n${hello}`,
      ...entries(
        max.files - 1,
        n => `m${n}.ts`,
        n => `import './m${(n + 1) % (max.files - 1)}.ts'\nimport './m${(n * 7) % (max.files - 1)}.ts'`,
      ),
    },
  }),
  'one file in base64': () => ({
    files: {
      'index.ts': hello,
      'data.bin': { base64: Buffer.alloc(max.bytes - 1000).toString('base64') },
    },
  }),
  'base64 that is none': () => ({
    files: { 'index.ts': hello, 'data.bin': { base64: '!'.repeat(max.bytes) } },
  }),
  'files in deep directories': () => ({
    files: {
      'index.ts': hello,
      ...entries(
        max.files - 1,
        n => `${`${n % 20}/`.repeat(48)}${n}`,
        () => 'x',
      ),
    },
  }),
  'an import map of many names': () => ({
    files: {
      'index.ts': `${Array.from({ length: max.mapEntries }, (_, n) => `import 'name${n}'`).join('\n')}\n${hello}`,
      'lib.ts': '',
      'deno.json': JSON.stringify({
        imports: entries(
          max.mapEntries,
          n => `name${n}`,
          () => './lib.ts',
        ),
      }),
    },
  }),
  'an import map of scopes': () => ({
    files: {
      'index.ts': `import 'name1'\n${hello}`,
      'lib.ts': '',
      'deno.json': JSON.stringify({
        imports: { name1: './lib.ts' },
        scopes: entries(
          100,
          n => `./s${n}/`,
          () =>
            entries(
              90,
              n => `name${n}`,
              () => './lib.ts',
            ),
        ),
      }),
    },
  }),
  'an import map of open brackets': () => ({ files: { 'index.ts': hello, 'deno.json': fill('[', max.map) } }),
  'an import map of open comments': () => ({
    files: { 'index.ts': hello, 'deno.json': fill('/*', max.map) },
  }),
  'an import map of open texts': () => ({ files: { 'index.ts': hello, 'deno.json': fill('"\\', max.map) } }),
  'an import map of commas': () => ({ files: { 'index.ts': hello, 'deno.json': fill('[,],', max.map) } }),
  'imports of mapped names before and after a long text': () => ({
    files: {
      'index.ts': `${Array.from({ length: 900 }, (_, n) => `import 'name${n}'`).join(';')};\n${pad(max.bytes - 100_000)}${hello}`,
      'lib.ts': '',
      'deno.json': JSON.stringify({
        imports: entries(
          900,
          n => `name${n}`,
          () => './lib.ts',
        ),
      }),
    },
  }),
  'code of imports': () => ({
    files: { 'index.ts': fill(`import './lib.ts';`, max.bytes - 1000), 'lib.ts': '' },
  }),
  'code of open brackets': () => ({ code: fill('[', max.bytes - 1000) }),
  'code of template strings': () => ({ code: fill('`${', max.bytes - 1000) }),
  'code of regular expressions': () => ({ code: `${hello};${fill('/a/;', max.bytes - 1000)}` }),
  'code in one line with an error at its end': () => ({ code: `${fill('a();', max.bytes - 1000)}(` }),
  'an error with a long name': () => ({
    files: { 'index.ts': `import { "${'/'.repeat(60_000)}" as x } from './a.js'\n${hello}`, 'a.js': '' },
  }),
  'lines before an import': () => ({
    files: {
      'index.ts': `${'\n'.repeat(max.bytes - 1000)}import 'name'\n${hello}`,
      'lib.ts': '',
      'deno.json': '{ "imports": { "name": "./lib.ts" } }',
    },
  }),
  'imports of hundreds of packages': () => ({
    code: Array.from({ length: 5000 }, (_, n) => `import 'npm:absent-${n}@1'`).join('\n'),
  }),
}

/** What a function may answer. The control is one text of the same size. */
const answers: Record<string, string> = {
  'parts of one byte': `
    let left = 200_000
    return new Response(new ReadableStream({
      pull(controller) {
        for (let n = 0; n < 1000 && left > 0; n++, left--) controller.enqueue(new Uint8Array(1))
        if (left === 0) controller.close()
      }
    }))`,
  'many headers': `
    const headers = new Headers()
    for (let n = 0; n < 990; n++) headers.append('x-' + n, 'y'.repeat(200))
    return new Response('x', { headers })`,
  'many cookies': `
    const headers = new Headers()
    for (let n = 0; n < 990; n++) headers.append('set-cookie', 'a' + n + '=' + 'y'.repeat(200))
    return new Response('x', { headers })`,
  'the largest body': `return new Response(new Uint8Array(20_000_000))`,
  'lines of output': `
    for (let n = 0; n < 20_000; n++) console.log('line', n)
    return new Response('x')`,
  'one line of output': `
    console.log('x'.repeat(20_000_000))
    return new Response('x')`,
  'an error with a long message': `
    console.error(new Error('x'.repeat(20_000_000)))
    return new Response('x')`,
}

export function functionCases({ url, projectId, serviceKey, adminToken }: Attacked): Case[] {
  const root = `/api/v1/projects/${projectId}/functions`
  const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
  const put = (name: string, body: object): HttpRequest => ({
    method: 'PUT',
    path: `${root}/${name}`,
    headers,
    body: Buffer.from(JSON.stringify(body)),
  })
  const create = (name: string, code: string) =>
    send(url, {
      method: 'POST',
      path: root,
      headers,
      body: Buffer.from(JSON.stringify({ name, code, verify_jwt: false })),
    })
  const call = (name: string, query = '', body?: Buffer): HttpRequest => ({
    method: 'POST',
    path: `/v1/functions/${projectId}/${name}${query}`,
    headers: { apikey: serviceKey },
    ...(body && { body }),
  })
  const answering = Object.entries(answers)
    .map(([kind, code]) => `if (kind === ${JSON.stringify(kind)}) { ${code} }`)
    .join('\n')
  const answerCode = `
    Deno.serve(async req => {
      await req.text()
      const kind = new URL(req.url).searchParams.get('kind')
      ${answering}
      return new Response('x'.repeat(200_000))
    })`

  return [
    ...Object.entries(deployments).map(([kind, make]): Case => {
      const body = make()
      const size = JSON.stringify(body).length
      return {
        name: `functions: deployment of ${kind}`,
        prepare: async () => void (await create('deployed', hello)),
        control: () =>
          send(url, put('deployed', { code: `${pad(Math.min(size, max.bytes - 1000))}${hello}` })),
        attack: () => send(url, put('deployed', body)),
      }
    }),
    ...Object.keys(answers).map(
      (kind): Case => ({
        name: `functions: answer of ${kind}`,
        async prepare() {
          await create('answers', answerCode)
          await send(url, call('answers'))
        },
        control: () => send(url, call('answers')),
        attack: () => send(url, call('answers', `?kind=${encodeURIComponent(kind)}`)),
      }),
    ),
    {
      name: 'functions: a body that is not read',
      prepare: async () => void (await create('ignores', hello)),
      control: () => send(url, call('answers', '', Buffer.alloc(10 * mebibyte))),
      attack: () => send(url, call('ignores', '', Buffer.alloc(10 * mebibyte))),
    },
    {
      name: 'functions: secrets of the largest size',
      control: () => send(url, secretOf('SMALL', 'x')),
      attack: () => send(url, secretOf('LARGE', '\u0001'.repeat(65_536))),
    },
  ]

  function secretOf(name: string, value: string): HttpRequest {
    const body = Buffer.from(JSON.stringify({ name, value }))
    return { method: 'POST', path: `/api/v1/projects/${projectId}/secrets`, headers, body }
  }
}
