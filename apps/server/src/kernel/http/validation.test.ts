import assert from 'node:assert/strict'
import { test } from 'node:test'
import { branchesApi } from '@plinth/contract/branches.ts'
import { pitrApi } from '@plinth/contract/pitr.ts'
import { projectsApi } from '@plinth/contract/projects.ts'
import type { Route, Routes } from '@plinth/contract/route.ts'
import { routeTables } from '@plinth/contract/routes.ts'
import { Ajv } from 'ajv'
import { bodyChecks, serializerCompiler, validationSentence, validatorCompiler } from './validation.ts'

const compile = validatorCompiler()
const checkOf = bodyChecks()

function sentence(httpPart: string, schema: object, value: unknown): string | undefined {
  if (httpPart === 'body')
    try {
      checkOf(schema)(value)
      return undefined
    } catch (error) {
      return (error as Error).message
    }
  const validate = compile({ schema, httpPart, method: 'POST', url: '/' }) as {
    (value: unknown): boolean
    errors?: Parameters<typeof validationSentence>[0]
  }
  return validate(value) ? undefined : validationSentence(validate.errors ?? [], httpPart)
}
const body = projectsApi.create.body

test('the message names the field and what is wrong with it', () => {
  assert.equal(sentence('body', body, { name: 'x', nmae: 1 }), 'The body has an unknown field "nmae"')
  assert.equal(sentence('body', body, {}), 'The body must have the field "name"')
  assert.match(sentence('body', body, { name: 5 })!, /^Field "name" must be string/)
  assert.match(
    sentence('body', body, { name: 'x', slug: 'A B' })!,
    /^Field "slug" must be 3 to 50 characters/,
  )
  assert.match(
    sentence('querystring', projectsApi.list.query, { limit: '-1' })!,
    /^Query parameter "limit" must be >= 0/,
  )
  assert.match(
    sentence('params', projectsApi.read.params, { id: 'x' })!,
    /^Path parameter "id" must be a UUID$/,
  )
  assert.equal(sentence('querystring', pitrApi.preview.query, {}), 'Query parameter "target_time" is missing')
  assert.equal(
    sentence('body', branchesApi.create.body, { name: 'later', expires_at: 'tomorrow' }),
    'Field "expires_at" must be a time with an offset, such as 2030-01-31T10:00:00Z',
  )
})

test('texts in a query are converted to numbers, texts in a body are not', () => {
  assert.equal(sentence('querystring', projectsApi.list.query, { limit: '5' }), undefined)
  assert.match(sentence('body', body, { name: 'x', quotas: { rate_limit_anon: '5' } })!, /rate_limit_anon/)
})

test('every schema of the contract is valid and compiles for its use', () => {
  const ajv = new Ajv()
  const write = serializerCompiler()
  const problems: string[] = []
  const attempt = (what: string, schema: object | undefined, use: (schema: object) => unknown) => {
    if (schema === undefined) return
    if (!ajv.validateSchema(schema)) return problems.push(`${what}: ${ajv.errorsText()}`)
    try {
      use(schema)
    } catch (error) {
      // An error about the empty value is not an error of the schema.
      if (!/^(The body|Field|The value) |is required!$/.test((error as Error).message))
        problems.push(`${what}: ${error}`)
    }
  }
  let count = 0
  for (const table of Object.values<Routes>(routeTables))
    for (const route of Object.values<Route>(table)) {
      const what = `${route.method} ${route.path}`
      count++
      for (const part of ['params', 'query'] as const)
        attempt(`${what} ${part}`, route[part], schema => sentence(part, schema, {}))
      attempt(`${what} body`, route.body, schema => checkOf(schema)({}))
      if (route.reply && !route.raw)
        attempt(`${what} reply`, route.reply, schema =>
          write({ schema, method: route.method, url: route.path, httpStatus: '200' })({}),
        )
    }
  assert.ok(count > 150)
  assert.deepEqual(problems, [])
})
