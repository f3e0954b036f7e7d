// Ajv for the schemas of the contract. Text from paths and queries becomes numbers and booleans where these
// are declared; bodies are taken as they are.
import { Ajv, type ErrorObject } from 'ajv'
import formats from 'ajv-formats'
import type { FastifySchemaCompiler } from 'fastify'
import { Refusal } from '#src/kernel/errors.ts'

function ajv(coerceTypes: boolean) {
  const instance = new Ajv({
    coerceTypes,
    removeAdditional: false,
    useDefaults: true,
    allErrors: false,
    verbose: true,
  })
  ;(formats as unknown as (ajv: Ajv) => void)(instance)
  // Every id also has a pattern, which is stricter; checking both would be paid for on each request.
  instance.addFormat('uuid', true)
  return instance
}

/** For what comes in addresses. */
export function validatorCompiler(): FastifySchemaCompiler<object> {
  const text = ajv(true)
  return ({ schema }) => text.compile(schema)
}

/** For bodies: refuses with a sentence. No body counts as null, which a schema may allow. */
export function bodyChecks(): (schema: object) => (body: unknown) => void {
  const compiler = ajv(false)
  return schema => {
    const validate = compiler.compile(schema)
    return body => {
      if (!validate(body ?? null))
        throw new Refusal('invalid_request', validationSentence(validate.errors ?? [], 'body'))
    }
  }
}

/** One sentence naming the field and what is wrong with it. */
export function validationSentence(errors: readonly Partial<ErrorObject>[], part: string): string {
  const [error] = errors
  if (!error) return `The ${part} is not valid`
  const place = (error.instancePath ?? '').slice(1).replaceAll('/', '.')
  const where = place
    ? `${partName(part)} "${place}"`
    : part === 'body'
      ? 'The body'
      : `The ${partName(part)}`
  const { additionalProperty, missingProperty } = (error.params ?? {}) as Record<string, string>
  if (additionalProperty !== undefined) return `${where} has an unknown field "${additionalProperty}"`
  if (missingProperty !== undefined) return `${where} must have the field "${missingProperty}"`
  const { description } = (error.parentSchema ?? {}) as { description?: string }
  // A pattern says nothing to a person; the schema's description does.
  if (error.keyword === 'pattern' && description) return `${where} must be ${description}`
  const allowed = (error.params as { allowedValues?: unknown[] } | undefined)?.allowedValues
  return `${where} ${error.message ?? 'is not valid'}${allowed ? `: ${allowed.join(', ')}` : ''}`
}

const partName = (part: string) =>
  ({ body: 'Field', querystring: 'Query parameter', params: 'Path parameter' })[part] ?? part
