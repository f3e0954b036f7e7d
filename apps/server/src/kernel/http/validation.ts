// The schemas of the contract at work: Ajv for what comes in, where text from paths and queries becomes numbers and
// booleans as declared and bodies are taken as they are, and a writer of JSON for answers. Each is compiled when it is
// first needed: all of them would be most of the work of a start, and few processes ever need them all.
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import formats from 'ajv-formats'
import stringifier from 'fast-json-stringify'
import type { FastifySchemaCompiler } from 'fastify'
import type { FastifySerializerCompiler } from 'fastify/types/schema.js'
import { Refusal } from '#src/kernel/errors.ts'

function ajv(coerceTypes: boolean) {
  const instance = new Ajv({
    coerceTypes,
    removeAdditional: false,
    useDefaults: true,
    allErrors: false,
    verbose: true,
    // They are our own, and a test looks at them; looking here would cost each process a tenth of a second.
    validateSchema: false,
  })
  ;(formats as unknown as (ajv: Ajv) => void)(instance)
  // Every id also has a pattern, which is stricter; checking both would be paid for on each request.
  instance.addFormat('uuid', true)
  return instance
}

/** For what comes in addresses. */
export function validatorCompiler(): FastifySchemaCompiler<object> {
  const text = ajv(true)
  return ({ schema }) => {
    let compiled: ValidateFunction | undefined
    const validate = (value: unknown): boolean => {
      compiled ??= text.compile(schema)
      const isValid = compiled(value)
      validate.errors = compiled.errors ?? null
      return isValid
    }
    validate.errors = null as ErrorObject[] | null
    return validate
  }
}

/** For answers. */
export function serializerCompiler(): FastifySerializerCompiler<object> {
  return ({ schema }) => {
    let compiled: ((value: unknown) => string) | undefined
    return value => {
      compiled ??= stringifier(schema)
      return compiled(value)
    }
  }
}

/** For bodies: refuses with a sentence. No body counts as null, which a schema may allow. */
export function bodyChecks(): (schema: object) => (body: unknown) => void {
  const compiler = ajv(false)
  return schema => {
    let validate: ValidateFunction | undefined
    return body => {
      validate ??= compiler.compile(schema)
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
