// Every command, route and body in the documentation exists: commands and flags of the command line, and routes and
// bodies of the contract.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Check } from 'typebox/value'
import { findCommand, parseArguments, tokenise, wordsOf } from '../apps/cli/src/arguments.ts'
import { tree } from '../apps/cli/src/commands.ts'
import { aliasPath, prefix, type Route } from '../packages/contract/src/route.ts'
import { routeTables } from '../packages/contract/src/routes.ts'
import { commandLines, shellWords } from './shell-words.ts'

const root = join(import.meta.dirname, '..')
const routes: Route[] = Object.values(routeTables).flatMap(table => Object.values<Route>(table))
const routePatterns = routes.flatMap(route =>
  [route.path, aliasPath(route.path) ?? []].flat().map(path => ({
    route,
    pattern: new RegExp(
      `^${(prefix(route) + path)
        .replaceAll('.', '\\.')
        .replaceAll('{path}', '.+')
        .replaceAll(/\{\w+\}/g, '[^/]+')}/?$`,
    ),
  })),
)
const routesAt = (method: string, path: string) =>
  routePatterns
    .filter(({ route, pattern }) => route.method === method && pattern.test(path))
    .map(({ route }) => route)

/** Shell variables of the examples, which the page or README.md sets. */
const variables: Record<string, string> = {
  QUEUES: '/v1/project/queue/v1/queues',
  API_URL: '/v1/project',
  PLATFORM_URL: '',
  PROJECT_ID: 'project',
}
const pathOf = (url: string) =>
  url.replaceAll(/\$([A-Z_]+)/g, (whole, name) => variables[name] ?? whole).replace(/\?.*/, '')

function checkCommand(line: string): void {
  const tokens = tokenise(shellWords(line), tree)
  const { command, rest } = findCommand(wordsOf(tokens), tree)
  parseArguments(command, rest, tokens, tree)
}

function checkRequest(line: string): void {
  const words = shellWords(line)
  const argumentOf = (flag: string) => (words.includes(flag) ? words[words.indexOf(flag) + 1] : undefined)
  const body = argumentOf('-d')
  const method = argumentOf('-X') ?? (body === undefined ? 'GET' : 'POST')
  const url = words.find(word => word.startsWith('$')) ?? ''
  const found = routesAt(method, pathOf(url))
  assert.ok(found.length > 0, `there is no route ${method} ${url}`)
  if (body === undefined) return
  assert.ok(
    found.some(route => !route.body || Check(route.body, JSON.parse(body))),
    `${method} ${url} does not accept ${body}`,
  )
}

for (const file of ['README.md', ...globSync('docs/**/*.md', { cwd: root })]) {
  const text = readFileSync(join(root, file), 'utf8')
  const lines = [...text.matchAll(/^```sh\n(.*?)^```/gms)].flatMap(([, block]) => commandLines(block!))

  test(`${file}: the commands and their flags exist`, () => {
    for (const line of lines)
      for (const [, command] of line.matchAll(/npx plinth (.*)/g)) checkCommand(command!)
  })

  test(`${file}: the requests match a route and its body`, () => {
    for (const line of lines) for (const [, request] of line.matchAll(/curl (.*)/g)) checkRequest(request!)
  })

  test(`${file}: the routes exist`, () => {
    for (const [, method, path] of text.matchAll(/`([A-Z]+) (\/(?:api\/)?v1\/[^`?\s…]*)[`?\s]/g))
      assert.ok(
        routesAt(method!, path!.replaceAll(/\{\w+\}|<\w+>/g, 'x')).length > 0,
        `there is no route ${method} ${path}`,
      )
  })
}
