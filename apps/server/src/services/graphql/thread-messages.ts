// Messages between the platform and a thread that plans requests for large schemas.
import type { DocumentRequest, EngineOptions, PlannedRequest } from './engine.ts'

export type ToThread = {
  readonly id: number
  readonly engine: string
} /** The rows of both catalogue queries, as lines. */ & (
  | {
      readonly kind: 'open'
      readonly catalog: Uint8Array
      readonly reflection: Uint8Array
      readonly options: EngineOptions
      readonly schemas: readonly string[]
    }
  | { readonly kind: 'plan'; readonly request: DocumentRequest }
  | { readonly kind: 'print' }
)

export type FromThread = { readonly id: number } & (
  | { readonly result: PlannedRequest | string | undefined }
  /** Messages for the client. */
  | { readonly problem: readonly string[] }
  | { readonly isUnknownEngine: true }
  | { readonly failure: string }
)
