import assert from 'node:assert/strict'
import { test } from 'node:test'
import { projectsApi } from '@plinth/contract/projects.ts'
import { bodyChecks, validationSentence, validatorCompiler } from './validation.ts'

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

test('a sentence names the field and what is wrong with it', () => {
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
})

test('numbers in a query are read, text in a body is not turned into numbers', () => {
  assert.equal(sentence('querystring', projectsApi.list.query, { limit: '5' }), undefined)
  assert.match(sentence('body', body, { name: 'x', quotas: { rate_limit_anon: '5' } })!, /rate_limit_anon/)
})
