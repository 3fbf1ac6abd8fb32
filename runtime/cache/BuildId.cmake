# cmake -DFILES=a.a|b.a -DOUT=BuildId.inc -P BuildId.cmake: the hash of what
# compiles.
string(REPLACE "|" ";" files "${FILES}")
foreach(file IN LISTS files)
  file(SHA256 ${file} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 id "${all}")
file(CONFIGURE OUTPUT ${OUT} CONTENT "static constexpr char kOwnBuildId[] = \"${id}\";\n")
