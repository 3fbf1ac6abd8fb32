//===- FAOps.td - umbrella of all fa ops ------------------------*- tablegen -*-===//

#ifndef FATHOM_DIALECT_FAOPS_TD
#define FATHOM_DIALECT_FAOPS_TD

include "dialect/FADialect.td"
include "dialect/schedule/ScheduleAttrs.td"
include "dialect/variant/VariantOps.td"
include "dialect/nest/NestOps.td"

#endif // FATHOM_DIALECT_FAOPS_TD
